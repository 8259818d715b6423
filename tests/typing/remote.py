"""The client of a page elsewhere, as type checkers see it; ``type: ignore`` marks what they must reject."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import assert_type

import allotment
from allotment import WebClient


def client() -> WebClient:
    assert_type(allotment.connect("https://gpus.example", token="t", certificate_authority=Path("ca.pem")), WebClient)
    allotment.connect(8780)  # type: ignore[arg-type]
    return allotment.connect("http://127.0.0.1:8780", timeout=5)


def answers(web: WebClient) -> None:
    assert_type(web.explain("app.yaml", name="pod/train"), allotment.Explanation)
    assert_type(web.explain_classes(Path("class.yaml")).classes[0].matched, int)
    assert_type(web.free(tolerations=["dedicated=ml:NoSchedule"]), allotment.FreeReport)
    assert_type(web.check("app.yaml", {"kind": "Pod"}), allotment.CheckAnswer)
    assert_type(web.fix("app.yaml", unsafe=True).texts, dict[str, str])
    assert_type(web.plan("app.yaml", catalog=["aws"], max_spot=0.5).total, Decimal)
    assert_type(web.explain_code("M401").kind == "rule", bool)
    web.plan(capacity_type="cheap")  # type: ignore[arg-type]


def capacity(web: WebClient) -> None:
    found = web.would_fit(gpus=2, memory="40GB", copies=10)
    assert_type(found, allotment.FitAnswer)
    assert_type([refused.code for refused in found.refused], list[str])
    assert_type(web.what_if("drain:node-a"), allotment.WhatIfScreen)
    web.would_fit(vendor="intel")  # type: ignore[arg-type]
