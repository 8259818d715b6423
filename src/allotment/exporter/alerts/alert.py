"""An alert: what somebody should look at, when, and what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from allotment.exporter.queries import query

Severity: TypeAlias = Literal["critical", "warning", "info"]


class Alert(NamedTuple):
    """``lasting``: how long it must be so. ``advice``: what to do, for the page. ``description`` may quote labels."""

    name: str
    severity: Severity
    expression: str
    lasting: str
    summary: str
    description: str
    advice: str


def alert(
    name: str, severity: Severity, expression: str, lasting: str, summary: str, description: str, advice: str
) -> Alert:
    """An alert whose expression asks for what there is. Raises UnknownName."""
    return Alert(name, severity, query(expression).expression, lasting, summary, description, advice)
