"""What one concession would save: each condition that a claim states, each limit, each wish about nodes, let go once.

A concession is first tried on its own group of pods, whose verdicts cost a moment. The few that promise most are
planned again as a whole, with the objects edited as values, and only what that plan really costs is told.
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

#: Relaxations that are told; concessions that are planned again; groups of pods that are looked at.
MAX_REPORTED: Final = 5
_MAX_PLANNED: Final = 6
_MAX_GROUPS: Final = 12
#: Steps of the search for one concession. A plan that is searched less costs rather too much: savings stay true.
_STEPS: Final = 20
#: What is promised where nobody knows, so that it is planned after the others.
_UNKNOWN_SAVING: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A concession and what its own groups would pay less."""

    candidate: RelaxationCandidate
    saves: Decimal


def relaxations(
    values: Iterable[Object], plan: ProvisioningPlan, catalog: Sequence[InstanceType], limits: PlanLimits, features: Features,
    *, keep_going: KeepGoing,
) -> tuple[Relaxation, ...]:  # fmt: skip
    """The concessions that make the plan cheaper, the one that saves most first; found until ``keep_going`` ends."""
    if not plan.machines:
        return ()
    given = tuple(values)
    demand = read_demand(given, features)
    promises = sorted(_estimates(demand, plan, catalog, limits, keep_going), key=lambda one: -one.saves)
    found: list[Relaxation] = []
    for promise in _distinct(promises)[:_MAX_PLANNED]:
        if not keep_going():
            break
        total = _cost_with(promise.candidate, given, demand, plan, catalog, limits, keep_going)
        if total is not None and total < plan.total:
            one = promise.candidate
            found.append(
                Relaxation(what=one.what, object=one.object, path=one.path, total=total, saves=plan.total - total)
            )
    found.sort(key=lambda one: -one.saves)
    # Two ways to the same saving at one place: the smaller step, which was the dearer type's, stood last.
    unlike = {(one.object, one.path, one.total): one for one in found}
    return tuple(unlike.values())[:MAX_REPORTED]


def _estimates(
    demand: ClusterDemand, plan: ProvisioningPlan, catalog: Sequence[InstanceType], limits: PlanLimits, keep_going: KeepGoing
) -> Iterator[_Estimate]:
    """Every concession that makes some group cheaper by itself."""
    judge = TypeEvaluator(demand, catalog)
    kinds = [kind for kind in group_items(demand) if not any(pod.claims.allocated for pod in kind.representative.pods)]
    kinds = sorted(kinds, key=lambda kind: -len(kind.items))[:_MAX_GROUPS]
    before = {kind.number: judge.cheapest(kind, limits) for kind in kinds}
    # Where most is paid, most can be saved.
    kinds.sort(key=lambda kind: -(before[kind.number] or Decimal(0)))
    for kind in kinds:
        cost = before[kind.number]
        for concession in (*claim_relaxations(kind, demand, judge, limits, cost), *node_relaxations(kind)):
            if not keep_going():
                return
            saves = _saved(cost, judge.cheapest(concession.apply_to(kind), limits, cost))
            if saves > 0:
                yield _Estimate(concession, saves)
    for concession in limit_relaxations(limits, catalog):
        if not keep_going():
            return
        assert concession.limits is not None
        costs = ((before[kind.number], judge.cheapest(kind, concession.limits, before[kind.number])) for kind in kinds)
        saves = sum((_saved(cost, less) for cost, less in costs), Decimal(0))
        if concession.is_count_limit:  # which no group feels by itself
            alone = sum((cost for cost in before.values() if cost is not None), Decimal(0))
            saves = max(plan.total - alone, saves, _UNKNOWN_SAVING)
        if saves > 0:
            yield _Estimate(concession, saves)


def _saved(before: Decimal | None, after: Decimal | None) -> Decimal:
    return before - after if before is not None and after is not None else Decimal(0)


def _distinct(promises: Iterable[_Estimate]) -> list[_Estimate]:
    """One object is edited once: equal groups may share a template."""
    found: dict[tuple[str, str, str], _Estimate] = {}
    for promise in promises:
        one = promise.candidate
        found.setdefault((one.object, one.path, one.what), promise)
    return list(found.values())


def _cost_with(
    concession: RelaxationCandidate, values: Sequence[Object], demand: ClusterDemand, plan: ProvisioningPlan, catalog: Sequence[InstanceType],
    limits: PlanLimits, keep_going: KeepGoing,
) -> Decimal | None:  # fmt: skip
    """What everything costs with a concession; None if then more pods go without."""
    changed = values if concession.edit is None else edited(values, concession, _claims_of_template(concession.object, demand))
    if changed is None:
        return None
    again = read_demand(changed, demand.features)
    found = plan_demand(again, catalog, concession.limits or limits, keep_going=_at_most(_STEPS, keep_going))
    return found.total if len(found.unserved) <= len(plan.unserved) else None


def _at_most(steps: int, keep_going: KeepGoing) -> KeepGoing:
    """A share of the time, so that one concession does not take it all."""
    left = iter(range(steps))
    return lambda: next(left, None) is not None and keep_going()


def _claims_of_template(name: str, demand: ClusterDemand) -> frozenset[ObjectKey]:
    """The claims of waiting pods that a template has made already, or will."""
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
    values: Iterable[Object], concession: RelaxationCandidate, made: Collection[ObjectKey] = ()
) -> tuple[Object, ...] | None:
    """The objects with one of them changed; None if it is not among them, or cannot be changed so.

    ``made``: claims that were made from it, and would be made anew.
    """
    kind, _, full = concession.object.partition(" ")
    namespace, _, name = full.rpartition("/")
    key = ObjectKey(namespace, name)
    found = False
    changed: list[Object] = []
    assert concession.edit is not None
    for value in values:
        own = ObjectKey(value.metadata.namespace, value.metadata.name)
        meant = type(value).__name__ == kind and own == key
        copy = isinstance(value, ResourceClaim) and own in made
        if meant or copy:
            path = concession.path.removeprefix("spec.") if copy else concession.path
            try:
                value = apply_change(value, path, concession.edit.value)
            except LookupError:
                return None
            # An API server has seen the old one, not this: it is completed and judged anew.
            if isinstance(value, ResourceClaim | ResourceClaimTemplate):
                value = altered(value, metadata=altered(value.metadata, uid=""))
            found = found or meant
        changed.append(value)
    return tuple(changed) if found else None
