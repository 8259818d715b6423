"""The codes are stable: documented, ordered, and with readable texts."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from allotment.engine.refusal import (
    CODES,
    RANK,
    AllocationRefusal,
    Diagnosis,
    Funnel,
    FunnelStep,
    NearestMiss,
    NodeReason,
    SuggestedChange,
    page,
)

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "reasons.md"


def test_the_page_is_generated_from_the_table() -> None:
    assert DOCS.read_text() == page()


def test_codes_are_kebab_case_and_fully_described() -> None:
    for name, code in CODES.items():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert code.summary.endswith(".")
        assert code.advice.endswith(".")
        assert code.kubernetes


def test_codes_fixed_by_waiting_rank_nearest() -> None:
    waiting = ("devices-in-use", "capacity-in-use", "counters-exhausted")
    assert all(RANK[code] < RANK["selector-matches-nothing"] < RANK["driver-missing"] for code in waiting)


def test_json_round_trip() -> None:
    step = FunnelStep(step="in-use", text="in use", left=0, lost=("gpu-0",), by=("claim a/b: gpu-0",))
    funnel = Funnel(claim="a/c", request="gpu", device_class="x", wanted=1, visible=1, steps=(step,))
    refused = AllocationRefusal(
        code="devices-in-use",
        summary="s",
        node="n",
        funnels=(funnel,),
        nearest=NearestMiss(device="gpu-0", what="memory", actual="1Gi", wanted="2Gi"),
        changes=(SuggestedChange(text="release claim a/b", node="n"),),
    )
    diagnosis = Diagnosis(headline=refused, nodes=(NodeReason(nodes=("n",), refused=refused),))
    assert msgspec.json.decode(msgspec.json.encode(diagnosis), type=Diagnosis) == diagnosis
    assert funnel.left() == 0
