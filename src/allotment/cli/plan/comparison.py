"""``--compare``: the cost under the rules of other autoscalers, as text."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from allotment.phrases import counted
from allotment.planning.comparison import BaselineResult
from allotment.planning.reasons.wording import dollars


def comparison_lines(compared: Iterable[BaselineResult], total: Decimal) -> list[str]:
    """Return the comparison as lines of text. ``total``: of the plan."""
    lines = ["Cost under other autoscalers' rules, with the same catalog:"]
    for result in compared:
        times = ""
        if total and result.total:
            factor = result.total / total
            times = " (equal)" if abs(factor - 1) < Decimal("0.005") else f" ({factor:.2f} times as much)"
        left = f"; {result.unserved} not placed" if result.unserved else ""
        lines.append(
            f"  {result.rules}: {counted(result.machines, 'machine')}, {dollars(result.total)} USD/h{times}{left}"
        )
    return lines
