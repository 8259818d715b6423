"""The definition of an alert: expression, severity, texts, and advice for the page."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from allotment.exporter.queries import query

Severity: TypeAlias = Literal["critical", "warning", "info"]


class Alert(NamedTuple):
    """``duration``: how long the expression must hold. ``advice``: what to do, for the page. ``description`` may use
    labels.
    """

    name: str
    severity: Severity
    expression: str
    duration: str
    summary: str
    description: str
    advice: str


def alert(
    name: str, severity: Severity, expression: str, duration: str, summary: str, description: str, advice: str
) -> Alert:
    """Return an alert with a checked expression. Raises UnknownName."""
    return Alert(name, severity, query(expression).expression, duration, summary, description, advice)
