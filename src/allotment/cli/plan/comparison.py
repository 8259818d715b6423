"""``--compare``: the cost of the same pods under the rules of Karpenter and of cluster-autoscaler.

Both are re-implementations of the rules, with the same catalog and the same feasibility check; the real programs model
claims less exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.packing.problem import FeasibilityCheck, Packing, Problem
from allotment.phrases import counted
from allotment.planning.formulation.problem import Formulation
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import ClusterDemand
from allotment.planning.reasons.wording import dollars
from allotment.planning.report import ProvisioningPlan

_MICRO: Final = 10**6


class BaselineResult(NamedTuple):
    """The machines that one set of rules provisions. ``left``: the number of pods, or groups, without a machine."""

    name: str
    machines: int
    total: Decimal
    left: int


class BaselineComparison(NamedTuple):
    """The results of all sets of rules."""

    results: tuple[BaselineResult, ...]

    @property
    def data(self) -> list[dict[str, Any]]:
        """The results as JSON data."""
        return [
            {"rules": result.name, "machines": result.machines, "total": str(result.total), "unserved": result.left}
            for result in self.results
        ]


def compare(demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> BaselineComparison:
    """Solve the plan's problem with each set of rules."""
    from allotment.packing.baselines import cluster_autoscaler, karpenter

    question = Formulation(demand, catalog, limits)
    rules: tuple[tuple[str, Callable[[Problem, FeasibilityCheck], Packing]], ...] = (
        ("Karpenter", karpenter),
        ("cluster-autoscaler (least-waste)", cluster_autoscaler),
    )
    return BaselineComparison(tuple(_baseline_result(question, name, rule) for name, rule in rules))


def _baseline_result(
    question: Formulation, name: str, rule: Callable[[Problem, FeasibilityCheck], Packing]
) -> BaselineResult:
    if not question.problem.bin_types:
        return BaselineResult(name, 0, Decimal(0), sum(question.problem.counts))
    packing = rule(question.problem, question.oracle)
    machines = sum(
        machine.count for machine in packing.bins if question.bin_candidates[machine.bin_type].offer is not None
    )
    return BaselineResult(name, machines, Decimal(packing.cost) / _MICRO, sum(count for _, count in packing.unpacked))


def comparison_lines(compared: BaselineComparison, plan: ProvisioningPlan) -> list[str]:
    """Yield the comparison as lines of text."""
    lines = ["Cost under other autoscalers' rules, with the same catalog:"]
    for result in compared.results:
        times = ""
        if plan.total and result.total:
            factor = result.total / plan.total
            times = " (equal)" if abs(factor - 1) < Decimal("0.005") else f" ({factor:.2f} times as much)"
        left = f"; {result.left} not placed" if result.left else ""
        lines.append(
            f"  {result.name}: {counted(result.machines, 'machine')}, {dollars(result.total)} USD/h{times}{left}"
        )
    return lines
