"""The measurement of one side on one case, as both sides print it: one JSON object per line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Measurement:
    """Latencies of the pods of one case, in seconds, and their allocations."""

    name: str
    seconds: list[float]
    #: Per finished pod: the node, then driver/pool/device of each result; empty when none fits.
    placed: list[list[str]] = field(default_factory=list)
    #: Time spent on the pod during which the limit was reached, or 0.
    unfinished: float = 0

    @property
    def rate(self) -> float | None:
        """Pods per second, or None if no pod was finished."""
        return len(self.seconds) / sum(self.seconds) if self.seconds else None

    def quantile(self, share: float) -> float | None:
        """The latency, in seconds, that ``share`` of the pods did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def parse(lines: Iterable[str]) -> dict[str, Measurement]:
    """Parse lines, by case name."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    return {row["name"]: Measurement(**row) for row in rows}


def dump(measured: Measurement) -> str:
    """The line that `parse` reads."""
    return json.dumps(
        {
            "name": measured.name,
            "seconds": measured.seconds,
            "placed": measured.placed,
            "unfinished": measured.unfinished,
        }
    )
