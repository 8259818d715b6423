"""A replay experiment: its inputs as one value, and a run for a policy and a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from allotment.tools.replay.policies import POLICIES, PlacementPolicy
from allotment.tools.replay.report import CurvePoint, curve_point, curve_points
from allotment.tools.replay.simulation import run
from allotment.tools.replay.trace import TraceNode, TracePod
from allotment.tools.replay.workload import capacity_of, events_by_time, random_arrivals, workload_of

#: Part of every fingerprint: increment it if equal inputs give different results than before.
_REVISION: Final = 1


@dataclass(frozen=True, slots=True)
class Experiment:
    """``share``: pods arrive until their requests reach this share of the GPUs (1.3: 130 %). ``use_times``: pods arrive
    and depart at the times of the trace instead. ``prices``: USD per hour of a GPU by model; None for no costs.
    """

    pods: tuple[TracePod, ...]
    nodes: tuple[TraceNode, ...]
    share: float = 1.3
    use_times: bool = False
    prices: Mapping[str, Decimal] | None = field(default=None)

    @property
    def capacity(self) -> int:
        """The number of GPUs of all nodes."""
        return capacity_of(self.nodes) // 1000

    def fingerprint(self) -> str:
        """A hash of all inputs that the results depend on."""
        prices = None if self.prices is None else sorted(self.prices.items())
        text = repr((_REVISION, self.pods, self.nodes, self.share, self.use_times, prices))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def find_policy(name: str) -> PlacementPolicy | None:
    """The policy with this name, or None."""
    return next((policy for policy in POLICIES if policy.name == name), None)


def run_experiment(
    experiment: Experiment, policy: PlacementPolicy, seed: int, progress: Callable[[CurvePoint], None] | None = None
) -> tuple[CurvePoint, ...]:
    """The curve of one run. ``progress`` is called with each point."""
    workload = workload_of(experiment.pods)
    if experiment.use_times:
        events, shape_of = events_by_time(experiment.pods), workload.shape_of
    else:
        events, shape_of = random_arrivals(workload, capacity_of(experiment.nodes), experiment.share, seed)
    capacity, nodes = capacity_of(experiment.nodes), experiment.nodes
    report_point = None if progress is None else lambda point: progress(curve_point(point, capacity))
    result = run(workload, shape_of, events, nodes, policy, seed, progress=report_point)
    return curve_points(result, experiment.prices)
