"""The saving from each relaxation of a claim condition, a limit or a node constraint.

A relaxation is first evaluated on its own group of pods, which is fast. Those with the highest estimated saving are
applied to the objects and planned again as a whole; only the cost of that plan is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from msgspec.structs import replace as altered

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.packing.problem import KeepGoing
from allotment.tools.explain.fixes import apply_change
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import ClusterDemand, read_demand
from allotment.tools.plan.pending_pods.grouping import group_items
from allotment.tools.plan.planning import plan_demand
from allotment.tools.plan.reasons.type_verdicts import TypeEvaluator
from allotment.tools.plan.relaxations.candidates import (
    RelaxationCandidate,
    claim_relaxations,
    limit_relaxations,
    node_relaxations,
)
from allotment.tools.plan.report import ProvisioningPlan, Relaxation

#: Maximum number of relaxations that are reported, candidates that are planned again, and pod groups.
MAX_REPORTED: Final = 5
_MAX_PLANNED: Final = 6
_MAX_GROUPS: Final = 12
#: Steps of the search for one candidate. A shorter search can only find a higher cost, so that savings are real.
_STEPS: Final = 20
#: The estimate for an unknown saving: the candidate is planned after the others.
_UNKNOWN_SAVING: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A candidate and the saving of its own groups in USD per hour."""

    candidate: RelaxationCandidate
    saves: Decimal


def relaxations(
    values: Iterable[Object], plan: ProvisioningPlan, catalog: Sequence[InstanceType], limits: PlanLimits, features:
    Features, *, keep_going: KeepGoing,
) -> tuple[Relaxation, ...]:  # fmt: skip
    """The relaxations that make the plan cheaper, by saving, found until ``keep_going`` returns False."""
    if not plan.machines:
        return ()
    objects = tuple(values)
    demand = read_demand(objects, features)
    estimates = sorted(_estimates(demand, plan, catalog, limits, keep_going), key=lambda each: -each.saves)
    result: list[Relaxation] = []
    for estimate in _distinct(estimates)[:_MAX_PLANNED]:
        if not keep_going():
            break
        total = _cost_with(estimate.candidate, objects, demand, plan, catalog, limits, keep_going)
        if total is not None and total < plan.total:
            candidate = estimate.candidate
            result.append(
                Relaxation(
                    what=candidate.what,
                    object=candidate.object,
                    path=candidate.path,
                    total=total,
                    saves=plan.total - total,
                )
            )
    result.sort(key=lambda each: -each.saves)
    # Of changes with the same saving at one path, the smallest one comes last: that of the most expensive type.
    distinct = {(candidate.object, candidate.path, candidate.total): candidate for candidate in result}
    return tuple(distinct.values())[:MAX_REPORTED]


def _estimates(
    demand: ClusterDemand,
    plan: ProvisioningPlan,
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    keep_going: KeepGoing,
) -> Iterator[_Estimate]:
    """The candidates that make some group cheaper by itself."""
    evaluator = TypeEvaluator(demand, catalog)
    kinds = [kind for kind in group_items(demand) if not any(pod.claims.allocated for pod in kind.representative.pods)]
    kinds = sorted(kinds, key=lambda kind: -len(kind.items))[:_MAX_GROUPS]
    before = {kind.number: evaluator.cheapest(kind, limits) for kind in kinds}
    # The groups with the highest cost can save the most.
    kinds.sort(key=lambda kind: -(before[kind.number] or Decimal(0)))
    for kind in kinds:
        cost = before[kind.number]
        for candidate in (*claim_relaxations(kind, demand, evaluator, limits, cost), *node_relaxations(kind)):
            if not keep_going():
                return
            saves = _saved(cost, evaluator.cheapest(candidate.apply_to(kind), limits, cost))
            if saves > 0:
                yield _Estimate(candidate, saves)
    for candidate in limit_relaxations(limits, catalog):
        if not keep_going():
            return
        assert candidate.limits is not None
        costs = (
            (before[kind.number], evaluator.cheapest(kind, candidate.limits, before[kind.number])) for kind in kinds
        )
        saves = sum((_saved(cost, less) for cost, less in costs), Decimal(0))
        if candidate.is_count_limit:  # its effect is not visible in a single group
            alone = sum((cost for cost in before.values() if cost is not None), Decimal(0))
            saves = max(plan.total - alone, saves, _UNKNOWN_SAVING)
        if saves > 0:
            yield _Estimate(candidate, saves)


def _saved(before: Decimal | None, after: Decimal | None) -> Decimal:
    return before - after if before is not None and after is not None else Decimal(0)


def _distinct(estimates: Iterable[_Estimate]) -> list[_Estimate]:
    """The first estimate for each change: equal groups may share a template."""
    result: dict[tuple[str, str, str], _Estimate] = {}
    for estimate in estimates:
        candidate = estimate.candidate
        result.setdefault((candidate.object, candidate.path, candidate.what), estimate)
    return list(result.values())


def _cost_with(
    candidate: RelaxationCandidate, values: Sequence[Object], demand: ClusterDemand, plan: ProvisioningPlan, catalog:
    Sequence[InstanceType], limits: PlanLimits, keep_going: KeepGoing,
) -> Decimal | None:  # fmt: skip
    """The total cost with a candidate; None if it leaves more pods unserved."""
    changed = (
        values if candidate.edit is None else edited(values, candidate, _claims_of_template(candidate.object, demand))
    )
    if changed is None:
        return None
    new_demand = read_demand(changed, demand.features)
    result = plan_demand(new_demand, catalog, candidate.limits or limits, keep_going=_at_most(_STEPS, keep_going))
    return result.total if len(result.unserved) <= len(plan.unserved) else None


def _at_most(steps: int, keep_going: KeepGoing) -> KeepGoing:
    """A limited number of steps, so that one candidate does not use all the time."""
    left = iter(range(steps))
    return lambda: next(left, None) is not None and keep_going()


def _claims_of_template(name: str, demand: ClusterDemand) -> frozenset[ObjectKey]:
    """The claims of pending pods that are or will be generated from a template."""
    kind, _, full = name.partition(" ")
    if kind != "ResourceClaimTemplate":
        return frozenset()
    return frozenset(
        key
        for pod in demand.pending
        for key, template in pod.claims.templates.items()
        if f"{key.namespace}/{template}" == full
    )


def edited(
    values: Iterable[Object], candidate: RelaxationCandidate, generated: Collection[ObjectKey] = ()
) -> tuple[Object, ...] | None:
    """The objects with a candidate's change; None if the object is missing or the path does not exist in it.

    ``generated``: claims generated from the object, which are changed too.
    """
    kind, _, full = candidate.object.partition(" ")
    namespace, _, name = full.rpartition("/")
    key = ObjectKey(namespace, name)
    result = False
    changed: list[Object] = []
    assert candidate.edit is not None
    for value in values:
        own_key = ObjectKey(value.metadata.namespace, value.metadata.name)
        is_target = type(value).__name__ == kind and own_key == key
        is_copy = isinstance(value, ResourceClaim) and own_key in generated
        if is_target or is_copy:
            path = candidate.path.removeprefix("spec.") if is_copy else candidate.path
            try:
                value = apply_change(value, path, candidate.edit.value)
            except LookupError:
                return None
            # The changed object is new to the API server, so that it is defaulted and validated again.
            if isinstance(value, ResourceClaim | ResourceClaimTemplate):
                value = altered(value, metadata=altered(value.metadata, uid=""))
            result = result or is_target
        changed.append(value)
    return tuple(changed) if result else None
