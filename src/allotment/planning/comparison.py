"""The cost of the same pods under the rules of Karpenter and of cluster-autoscaler.

Both are re-implementations of the rules, with the same catalog and the same feasibility check; the real programs model
claims less exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.meta import Value
from allotment.packing.problem import FeasibilityCheck, Packing, Problem
from allotment.planning.formulation.problem import Formulation
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import ClusterDemand

_MICRO: Final = 10**6


class BaselineResult(Value, frozen=True):
    """The machines that one set of rules provisions. ``total``: USD per hour.

    ``unserved``: the number of pods, or groups, without a machine.
    """

    rules: str
    machines: int
    total: Decimal
    unserved: int


def compare(demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> tuple[BaselineResult, ...]:
    """Solve the plan's problem with each set of rules."""
    from allotment.packing.baselines import cluster_autoscaler, karpenter

    question = Formulation(demand, catalog, limits)
    rules: tuple[tuple[str, Callable[[Problem, FeasibilityCheck], Packing]], ...] = (
        ("Karpenter", karpenter),
        ("cluster-autoscaler (least-waste)", cluster_autoscaler),
    )
    return tuple(_baseline_result(question, name, rule) for name, rule in rules)


def _baseline_result(
    question: Formulation, name: str, rule: Callable[[Problem, FeasibilityCheck], Packing]
) -> BaselineResult:
    if not question.problem.bin_types:
        left = sum(question.problem.counts)
        return BaselineResult(rules=name, machines=0, total=Decimal(0), unserved=left)
    packing = rule(question.problem, question.oracle)
    machines = sum(
        machine.count for machine in packing.bins if question.bin_candidates[machine.bin_type].offer is not None
    )
    left = sum(count for _, count in packing.unpacked)
    return BaselineResult(rules=name, machines=machines, total=Decimal(packing.cost) / _MICRO, unserved=left)
