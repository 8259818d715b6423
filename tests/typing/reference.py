"""Reference data, as type checkers see it; ``type: ignore`` marks what they must reject."""

from __future__ import annotations

from typing import Any, assert_type

import allotment
from allotment import reference


def data() -> None:
    assert_type(reference.rules(), list[dict[str, Any]])
    assert_type(allotment.reference.rule("S101"), dict[str, Any])
    assert_type(reference.instance_types("aws/g5.*", gpu="a10g", max_price=2), list[dict[str, Any]])
    assert_type(reference.slices("t4:2", kube="1.36"), dict[str, Any])
    assert_type(reference.permissions("scheduler", namespace="gpu"), dict[str, Any])
    reference.rule(101)  # type: ignore[arg-type]
    reference.rulez()  # type: ignore[attr-defined]
