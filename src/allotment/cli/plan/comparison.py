"""``--compare``: what the same pods would cost by the rules of Karpenter and of cluster-autoscaler.

Both are our re-implementations of the rules, on the same catalogue and the same truth about what a machine holds; the
real programs know less of claims than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.packing.problem import FeasibilityCheck, Packing, Problem
from allotment.phrases import counted
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import ClusterDemand
from allotment.tools.plan.reasons.wording import dollars
from allotment.tools.plan.report import ProvisioningPlan

_MICRO: Final = 10**6


class BaselineResult(NamedTuple):
    """What one set of rules would buy. ``left``: pods, or groups of pods, that it finds no machine for."""

    name: str
    machines: int
    total: Decimal
    left: int


class BaselineComparison(NamedTuple):
    """All of them."""

    rivals: tuple[BaselineResult, ...]

    @property
    def data(self) -> list[dict[str, Any]]:
        """For programs."""
        return [
            {"rules": one.name, "machines": one.machines, "total": str(one.total), "unserved": one.left}
            for one in self.rivals
        ]


def compare(demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> BaselineComparison:
    """Ask each set of rules the very question that the plan answers."""
    from allotment.packing.baselines import cluster_autoscaler, karpenter

    question = Formulation(demand, catalog, limits)
    rules: tuple[tuple[str, Callable[[Problem, FeasibilityCheck], Packing]], ...] = (
        ("Karpenter", karpenter),
        ("cluster-autoscaler (least-waste)", cluster_autoscaler),
    )
    return BaselineComparison(tuple(_baseline_result(question, name, rule) for name, rule in rules))


def _baseline_result(question: Formulation, name: str, rule: Callable[[Problem, FeasibilityCheck], Packing]) -> BaselineResult:
    if not question.problem.bin_types:
        return BaselineResult(name, 0, Decimal(0), sum(question.problem.counts))
    packing = rule(question.problem, question.oracle)
    bought = sum(one.count for one in packing.bins if question.bin_candidates[one.bin_type].offer is not None)
    return BaselineResult(name, bought, Decimal(packing.cost) / _MICRO, sum(count for _, count in packing.unpacked))


def comparison_lines(compared: BaselineComparison, plan: ProvisioningPlan) -> list[str]:
    """The comparison for a person."""
    lines = ["With the rules of other autoscalers, on the same catalog:"]
    for one in compared.rivals:
        times = ""
        if plan.total and one.total:
            factor = one.total / plan.total
            times = " (equal)" if abs(factor - 1) < Decimal("0.005") else f" ({factor:.2f} times as much)"
        left = f"; {one.left} not placed" if one.left else ""
        lines.append(f"  {one.name}: {counted(one.machines, 'machine')}, {dollars(one.total)} USD/h{times}{left}")
    return lines
