"""Conditions in a status: one of each type; the transition time changes only with the status."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

Condition = dict[str, Any]
Answer = Literal["True", "False", "Unknown"]


def condition_of(conditions: Iterable[Condition] | None, type: str) -> Condition | None:
    """The condition of a type, or None."""
    return next((condition for condition in conditions or () if condition["type"] == type), None)


def is_true(conditions: Iterable[Condition] | None, type: str) -> bool:
    """Whether the condition exists and its status is True."""
    condition = condition_of(conditions, type)
    return condition is not None and condition["status"] == "True"


def with_condition(
    conditions: Iterable[Condition] | None, type: str, status: Answer, reason: str = "", message: str = "", *, now: str,
    **more: Any,
) -> list[Condition]:  # fmt: skip
    """Return the conditions with one of them set; an unchanged condition keeps its transition time.

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
    """The conditions except the one of a type."""
    return [condition for condition in conditions or () if condition["type"] != type]
