"""Conditions in a status: one of each type, and a transition time that moves only when the answer changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

Condition = dict[str, Any]
Answer = Literal["True", "False", "Unknown"]


def condition_of(conditions: Iterable[Condition] | None, type: str) -> Condition | None:
    """The condition of a type."""
    return next((condition for condition in conditions or () if condition["type"] == type), None)


def is_true(conditions: Iterable[Condition] | None, type: str) -> bool:
    """Whether there is such a condition and it says True."""
    condition = condition_of(conditions, type)
    return condition is not None and condition["status"] == "True"


def with_condition(
    conditions: Iterable[Condition] | None, type: str, status: Answer, reason: str = "", message: str = "", *, now: str,
    **more: Any,
) -> list[Condition]:  # fmt: skip
    """The conditions with one of them set; where nothing about it changes it stays as it is.

    >>> with_condition([], "Complete", "True", now="2026-01-01T00:00:00Z")
    [{'type': 'Complete', 'status': 'True', 'lastTransitionTime': '2026-01-01T00:00:00Z'}]
    """
    kept = list(conditions or ())
    old = condition_of(kept, type)
    new: Condition = {"type": type, "status": status, **more}
    same = old is not None and old["status"] == status
    new["lastTransitionTime"] = old.get("lastTransitionTime", now) if same and old else now
    if reason:
        new["reason"] = reason
    if message:
        new["message"] = message
    if old is None:
        return [*kept, new]
    if all(old.get(key) == value for key, value in new.items()):
        return kept
    return [new if condition is old else condition for condition in kept]


def without_condition(conditions: Iterable[Condition] | None, type: str) -> list[Condition]:
    """The conditions but one."""
    return [condition for condition in conditions or () if condition["type"] != type]
