"""The saving from each relaxation of a claim condition, a limit or a node constraint.

A relaxation is first evaluated on its own group of pods, which is fast. Those with the highest estimated saving are
applied to the objects and planned again as a whole; only the cost of that plan is reported. The work is limited in
steps, so that the result is the same on every machine; what was left out is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace as altered

from allotment.explanation.fixes import apply_change
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.packing.problem import KeepGoing
from allotment.packing.step_limit import StepLimit
from allotment.phrases import first_few
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import ClusterDemand, read_demand
from allotment.planning.pending_pods.grouping import ItemKind, group_items
from allotment.planning.planner import plan_demand
from allotment.planning.reasons.type_verdicts import TypeEvaluator
from allotment.planning.relaxations.candidates import (
    RelaxationCandidate,
    claim_relaxations,
    existing_device_relaxations,
    limit_relaxations,
    node_relaxations,
)
from allotment.planning.relaxations.selector_conditions import UNIT, Distance
from allotment.planning.report import ProvisioningPlan, Relaxation, UntriedRelaxations

#: Maximum number of candidates that are planned again, and of pods in all of these plans (at least one is planned).
MAX_PLANNED: Final = 6
_MAX_PODS: Final = 3000
#: Maximum number of pod groups whose claims are relaxed; no further group is begun after this many candidates.
_MAX_GROUPS: Final = 12
_MAX_CANDIDATES: Final = 60
#: Maximum number of relaxations to devices of existing nodes that are tried.
_MAX_EXISTING: Final = 6
#: Steps of the search for one candidate. A shorter search can only find a higher cost, so that savings are real.
_STEPS: Final = 20
#: The estimate for an unknown saving: the candidate is planned after the others.
_UNKNOWN_SAVING: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A candidate and the saving of its own groups in USD per hour."""

    candidate: RelaxationCandidate
    saves: Decimal


class RelaxationResult(NamedTuple):
    """The relaxations that make a plan cheaper, and what was not tried."""

    relaxations: tuple[Relaxation, ...]
    untried: UntriedRelaxations


def relaxations(
    values: Iterable[Object], plan: ProvisioningPlan, catalog: Sequence[InstanceType], limits: PlanLimits, features:
    Features, *, keep_going: KeepGoing,
) -> RelaxationResult:  # fmt: skip
    """The relaxations that make the plan cheaper, the nearest to what was requested first, then by saving.

    ``keep_going`` returns False once the user's time limit has passed or the user has ended the search.
    """
    if not plan.machines:
        return RelaxationResult((), UntriedRelaxations())
    objects = tuple(values)
    demand = read_demand(objects, features)
    estimates, groups = _estimates(objects, demand, plan, catalog, limits, keep_going)
    estimates.sort(key=lambda each: (each.candidate.distance.loss != UNIT, -each.saves))
    candidates = [estimate.candidate for estimate in _distinct(estimates)]
    planned = min(MAX_PLANNED, max(1, _MAX_PODS // max(len(demand.pending), 1)))
    untried, shortened = len(candidates[planned:]), 0
    found: list[tuple[Distance, Relaxation]] = []
    for number, candidate in enumerate(candidates[:planned]):
        if not keep_going():
            untried += len(candidates[number:planned])
            break
        steps = StepLimit(_STEPS, keep_going)
        result = _plan_with(candidate, objects, demand, catalog, limits, steps)
        if result is None or len(result.unserved) > len(plan.unserved):
            continue
        shortened += steps.exhausted and result.total > result.bound
        if result.total < plan.total:
            saves = plan.total - result.total
            what = f"{candidate.what}{_where(plan, result)}"
            relaxation = Relaxation(what, candidate.object, candidate.path, result.total, saves)
            found.append((candidate.distance, relaxation))
    ranked = _nearest_with_each_saving(found)
    time_ended = not keep_going()
    limit: Literal["", "work", "time"] = "time" if time_ended else "work" if untried or groups or shortened else ""
    return RelaxationResult(ranked, UntriedRelaxations(untried, groups, shortened, limit))


def _where(plan: ProvisioningPlan, result: ProvisioningPlan) -> str:
    """The existing nodes of all pods for which the plan orders machines; empty if it still orders one."""
    if result.machines:
        return ""
    ordered = {placement.pod for machine in plan.machines for placement in machine.placements}
    nodes = sorted({placement.node for placement in result.existing if placement.pod in ordered})
    if len(nodes) == 1:
        return f" (fits on node {nodes[0]}, which exists)"
    return f" (fits on nodes {first_few(nodes)}, which exist)" if nodes else ""


def _nearest_with_each_saving(found: Iterable[tuple[Distance, Relaxation]]) -> tuple[Relaxation, ...]:
    """The relaxations in order, without those that save no more than a nearer one at the same path."""
    kept: list[tuple[Distance, Relaxation]] = []
    for distance, each in sorted(found, key=lambda pair: (pair[0], -pair[1].saves)):
        nearer = (
            (other_distance, other.saves)
            for other_distance, other in kept
            if (other.object, other.path) == (each.object, each.path)
        )
        if not any(saves == each.saves or (saves > each.saves and other < distance) for other, saves in nearer):
            kept.append((distance, each))
    return tuple(each for _, each in kept)


def _estimates(
    objects: Sequence[Object],
    demand: ClusterDemand,
    plan: ProvisioningPlan,
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    keep_going: KeepGoing,
) -> tuple[list[_Estimate], int]:
    """The candidates that make some group cheaper by itself, and the number of groups that were left out."""
    evaluator = TypeEvaluator(demand, catalog)
    kinds = [kind for kind in group_items(demand) if not any(pod.claims.allocated for pod in kind.representative.pods)]
    left_out = len(kinds[_MAX_GROUPS:])
    kinds = sorted(kinds, key=lambda kind: -len(kind.items))[:_MAX_GROUPS]
    before = {kind.number: evaluator.cheapest(kind, limits) for kind in kinds}
    # The groups with the highest cost can save the most.
    kinds.sort(key=lambda kind: -(before[kind.number] or Decimal(0)))
    found = [
        _Estimate(candidate, cost)
        for kind, candidate in _on_existing_nodes(kinds, objects, demand, plan, limits, keep_going)
        if (cost := before[kind.number]) is not None
    ]
    count = 0
    for number, kind in enumerate(kinds):
        if count >= _MAX_CANDIDATES:
            left_out += len(kinds[number:])
            break
        cost = before[kind.number]
        for candidate in (*claim_relaxations(kind, demand, evaluator, limits, cost), *node_relaxations(kind)):
            if not keep_going():
                return found, left_out + len(kinds[number:])
            count += 1
            saves = _saved(cost, evaluator.cheapest(candidate.apply_to(kind), limits, cost))
            if saves > 0:
                found.append(_Estimate(candidate, saves))
    for candidate in limit_relaxations(limits, catalog):
        if not keep_going():
            break
        assert candidate.limits is not None
        costs = (
            (before[kind.number], evaluator.cheapest(kind, candidate.limits, before[kind.number])) for kind in kinds
        )
        saves = sum((_saved(cost, less) for cost, less in costs), Decimal(0))
        if candidate.is_count_limit:  # its effect is not visible in a single group
            alone = sum((cost for cost in before.values() if cost is not None), Decimal(0))
            saves = max(plan.total - alone, saves, _UNKNOWN_SAVING)
        if saves > 0:
            found.append(_Estimate(candidate, saves))
    return found, left_out


def _on_existing_nodes(
    kinds: Sequence[ItemKind],
    objects: Sequence[Object],
    demand: ClusterDemand,
    plan: ProvisioningPlan,
    limits: PlanLimits,
    keep_going: KeepGoing,
) -> Iterator[tuple[ItemKind, RelaxationCandidate]]:
    """The nearest relaxation of each selector condition with which a group fits on existing nodes."""
    ordered = {placement.pod for machine in plan.machines for placement in machine.placements}
    tried = 0
    for kind in kinds:
        pods = {pod.key for item in kind.items for pod in item.pods} & ordered
        for candidates in existing_device_relaxations(kind, demand) if pods else ():
            for candidate in candidates:
                if tried == _MAX_EXISTING or not keep_going():
                    return
                tried += 1
                result = _plan_with(candidate, objects, demand, (), limits, lambda: False)
                if result is not None and pods <= {placement.pod for placement in result.existing}:
                    yield kind, candidate
                    break


def _saved(before: Decimal | None, after: Decimal | None) -> Decimal:
    return before - after if before is not None and after is not None else Decimal(0)


def _distinct(estimates: Iterable[_Estimate]) -> list[_Estimate]:
    """The first estimate for each change: equal groups may share a template."""
    result: dict[tuple[str, str, str], _Estimate] = {}
    for estimate in estimates:
        candidate = estimate.candidate
        result.setdefault((candidate.object, candidate.path, candidate.what), estimate)
    return list(result.values())


def _plan_with(
    candidate: RelaxationCandidate, values: Sequence[Object], demand: ClusterDemand, catalog: Sequence[InstanceType],
    limits: PlanLimits, keep_going: KeepGoing,
) -> ProvisioningPlan | None:  # fmt: skip
    """The plan with a candidate; None if it does not apply to the objects."""
    changed = (
        values if candidate.edit is None else edited(values, candidate, _claims_of_template(candidate.object, demand))
    )
    if changed is None:
        return None
    new_demand = read_demand(changed, demand.features)
    return plan_demand(new_demand, catalog, candidate.limits or limits, keep_going=keep_going)


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
