"""Results of replay runs as curves: mean, minimum and maximum over the seeds, by requested GPUs; CSV export.

Shares are in percent of all GPUs. The cost is that of the nodes with pods; it is unknown if the price of any of them is
unknown.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from allotment.tools.replay.simulation import ReplayRun, RunPoint

#: The point at which policies are compared: requests equal to all GPUs, in percent.
FULL_DEMAND: Final = 100.0


class CurvePoint(msgspec.Struct, frozen=True, array_like=True):
    """A point of a curve. ``at``: requested GPUs in percent, or progress of a run with departures.

    ``refused``: percentage of the requested GPUs that could not be placed. ``usd``: per hour; None if unknown.
    """

    at: float
    allocated: float
    fragmented: float
    refused: float
    nodes: int
    usd: float | None = None


class RunOutcome(msgspec.Struct, frozen=True):
    """The result of one run, as stored in a file. ``fingerprint``: a hash of all inputs."""

    fingerprint: str
    policy: str
    seed: int
    seconds: float
    marks: tuple[CurvePoint, ...]


class Range(msgspec.Struct, frozen=True):
    """Mean, minimum and maximum over seeds."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class CurveStep:
    """All runs of a policy at one point.

    ``at``: the requested GPUs, or with recorded times the progress of the run. ``allocated``, ``fragmented``: of all
    GPUs; ``refused``: of the requested ones; all in percent. ``nodes``: the number with pods. ``usd``: the price of
    these per hour, None if it is unknown for any run.
    """

    at: float
    runs: int
    allocated: Range
    fragmented: Range
    refused: Range
    nodes: Range
    usd: Range | None


@dataclass(frozen=True, slots=True)
class Curve:
    """The curve of a policy over all its runs. ``seconds``: the mean duration of a run."""

    policy: str
    seconds: float
    steps: tuple[CurveStep, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of ``allot replay -o json`` for a policy."""
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return data

    def at(self, share: float) -> CurveStep:
        """The step nearest to a percentage."""
        return min(self.steps, key=lambda step: abs(step.at - share))

    def throughout(self) -> CurveStep:
        """The mean over the whole run; ``refused`` is the final value."""
        steps, last = self.steps, self.steps[-1]
        usd = [step.usd for step in steps if step.usd is not None]
        return CurveStep(
            at=last.at,
            runs=last.runs,
            allocated=_mean(step.allocated for step in steps),
            fragmented=_mean(step.fragmented for step in steps),
            refused=last.refused,
            nodes=_mean(step.nodes for step in steps),
            usd=_mean(usd) if len(usd) == len(steps) else None,
        )


def curve_points(run: ReplayRun, prices: Mapping[str, Decimal] | None = None) -> tuple[CurvePoint, ...]:
    """The curve of one run. ``prices``: USD per hour of a GPU by model; the cost is unknown for missing models."""
    marks = [curve_point(point, run.capacity) for point in run.points]
    if prices is None:
        return tuple(marks)
    costs = [cost_per_hour(run.node_types, point.nodes, prices) for point in run.points]
    return tuple(replace(mark, usd=usd) for mark, usd in zip(marks, costs, strict=True))


def curve_point(point: RunPoint, capacity: int) -> CurvePoint:
    """A run's point as a curve point, without the cost."""
    whole = max(capacity, 1)
    return CurvePoint(
        at=round(100 * point.at, 4),
        allocated=100 * point.allocated / whole,
        fragmented=100 * point.fragmented / whole,
        refused=100 * (1 - point.placed / point.arrived) if point.arrived else 0.0,
        nodes=sum(point.nodes),
    )


def cost_per_hour(
    node_types: Iterable[tuple[str, int]], nodes: Iterable[int], prices: Mapping[str, Decimal]
) -> float | None:
    """The cost of nodes in USD per hour, by type (model and number of GPUs) and count; None if any price is unknown.

    >>> cost_per_hour([("T4", 2), ("G2", 8)], [3, 0], {"T4": Decimal("0.5")})
    3.0
    """
    total = Decimal(0)
    for (model, gpus), count in zip(node_types, nodes, strict=True):
        if count:
            price = prices.get(model) if gpus else None
            if price is None:
                return None
            total += count * gpus * price
    return float(total)


def curves_of(outcomes: Sequence[RunOutcome]) -> tuple[Curve, ...]:
    """A curve for each policy, in the order of first appearance."""
    by_policy: dict[str, list[RunOutcome]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, []).append(outcome)
    return tuple(
        Curve(policy, fmean(run.seconds for run in runs), tuple(_steps(runs))) for policy, runs in by_policy.items()
    )


def _steps(runs: Sequence[RunOutcome]) -> Iterable[CurveStep]:
    """The steps at which all runs have a point; some runs end earlier than others."""
    by_run = [{mark.at: mark for mark in run.marks} for run in runs]
    for at in sorted(set.intersection(*(set(marks) for marks in by_run))):
        at_step = [marks[at] for marks in by_run]
        known = [mark.usd for mark in at_step if mark.usd is not None]
        yield CurveStep(
            at=at,
            runs=len(at_step),
            allocated=_spread([mark.allocated for mark in at_step]),
            fragmented=_spread([mark.fragmented for mark in at_step]),
            refused=_spread([mark.refused for mark in at_step]),
            nodes=_spread([float(mark.nodes) for mark in at_step]),
            usd=_spread(known) if len(known) == len(at_step) else None,
        )


def _spread(values: Sequence[float]) -> Range:
    return Range(fmean(values), min(values), max(values))


def _mean(spreads: Iterable[Range]) -> Range:
    listed = list(spreads)
    return Range(fmean(s.mean for s in listed), fmean(s.least for s in listed), fmean(s.most for s in listed))


#: The columns of the CSV; the ``usd`` columns are empty if a price is unknown.
COLUMNS: Final = (
    "policy", "at_pct", "runs",
    "allocated_pct_mean", "allocated_pct_min", "allocated_pct_max", "unallocated_pct_mean",
    "fragmented_pct_mean", "fragmented_pct_min", "fragmented_pct_max",
    "refused_pct_mean", "refused_pct_min", "refused_pct_max",
    "nodes_mean", "usd_per_hour_mean", "usd_per_hour_min", "usd_per_hour_max",
)  # fmt: skip


def to_csv(curves: Iterable[Curve]) -> str:
    """All curves as CSV, with a row for each policy and point."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for curve in curves:
        for step in curve.steps:
            usd = [f"{v:.4f}" for v in (step.usd.mean, step.usd.least, step.usd.most)] if step.usd else [""] * 3
            writer.writerow(
                [
                    curve.policy, f"{step.at:g}", step.runs, *_cells(step.allocated),
                    f"{100 - step.allocated.mean:.4f}", *_cells(step.fragmented), *_cells(step.refused),
                    f"{step.nodes.mean:.1f}", *usd,
                ]
            )  # fmt: skip
    return out.getvalue()


def _cells(spread: Range) -> tuple[str, str, str]:
    return f"{spread.mean:.4f}", f"{spread.least:.4f}", f"{spread.most:.4f}"
