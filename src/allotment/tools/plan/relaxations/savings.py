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
from allotment.tools.explain.fixes import applied
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.pending_pods.demand import Demand, demand_of
from allotment.tools.plan.pending_pods.grouping import kinds_of
from allotment.tools.plan.planning import plan_for
from allotment.tools.plan.reasons.type_verdicts import Judge
from allotment.tools.plan.relaxations.candidates import Concession, of_claims, of_limits, of_nodes
from allotment.tools.plan.report import Plan, Relaxation

#: Relaxations that are told; concessions that are planned again; groups of pods that are looked at.
TOLD: Final = 5
_PLANNED: Final = 6
_GROUPS: Final = 12
#: Steps of the search for one concession. A plan that is searched less costs rather too much: savings stay true.
_STEPS: Final = 20
#: What is promised where nobody knows, so that it is planned after the others.
_SOME: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class _Promise:
    """A concession and what its own groups would pay less."""

    concession: Concession
    saves: Decimal


def relaxations(
    values: Iterable[Object], plan: Plan, catalog: Sequence[InstanceType], limits: Limits, features: Features,
    *, keep_going: KeepGoing,
) -> tuple[Relaxation, ...]:  # fmt: skip
    """The concessions that make the plan cheaper, the one that saves most first; found until ``keep_going`` ends."""
    if not plan.machines:
        return ()
    given = tuple(values)
    demand = demand_of(given, features)
    promises = sorted(_promises(demand, plan, catalog, limits, keep_going), key=lambda one: -one.saves)
    found: list[Relaxation] = []
    for promise in _one_of_each_place(promises)[:_PLANNED]:
        if not keep_going():
            break
        total = _cost_with(promise.concession, given, demand, plan, catalog, limits, keep_going)
        if total is not None and total < plan.total:
            one = promise.concession
            found.append(
                Relaxation(what=one.what, object=one.object, path=one.path, total=total, saves=plan.total - total)
            )
    found.sort(key=lambda one: -one.saves)
    # Two ways to the same saving at one place: the smaller step, which was the dearer type's, stood last.
    unlike = {(one.object, one.path, one.total): one for one in found}
    return tuple(unlike.values())[:TOLD]


def _promises(
    demand: Demand, plan: Plan, catalog: Sequence[InstanceType], limits: Limits, keep_going: KeepGoing
) -> Iterator[_Promise]:
    """Every concession that makes some group cheaper by itself."""
    judge = Judge(demand, catalog)
    kinds = [kind for kind in kinds_of(demand) if not any(pod.claims.before for pod in kind.model.pods)]
    kinds = sorted(kinds, key=lambda kind: -len(kind.items))[:_GROUPS]
    before = {kind.number: judge.cheapest(kind, limits) for kind in kinds}
    # Where most is paid, most can be saved.
    kinds.sort(key=lambda kind: -(before[kind.number] or Decimal(0)))
    for kind in kinds:
        cost = before[kind.number]
        for concession in (*of_claims(kind, demand, judge, limits, cost), *of_nodes(kind)):
            if not keep_going():
                return
            saves = _saved(cost, judge.cheapest(concession.changed(kind), limits, cost))
            if saves > 0:
                yield _Promise(concession, saves)
    for concession in of_limits(limits, catalog):
        if not keep_going():
            return
        assert concession.limits is not None
        costs = ((before[kind.number], judge.cheapest(kind, concession.limits, before[kind.number])) for kind in kinds)
        saves = sum((_saved(cost, less) for cost, less in costs), Decimal(0))
        if concession.of_numbers:  # which no group feels by itself
            alone = sum((cost for cost in before.values() if cost is not None), Decimal(0))
            saves = max(plan.total - alone, saves, _SOME)
        if saves > 0:
            yield _Promise(concession, saves)


def _saved(before: Decimal | None, after: Decimal | None) -> Decimal:
    return before - after if before is not None and after is not None else Decimal(0)


def _one_of_each_place(promises: Iterable[_Promise]) -> list[_Promise]:
    """One object is edited once: equal groups may share a template."""
    found: dict[tuple[str, str, str], _Promise] = {}
    for promise in promises:
        one = promise.concession
        found.setdefault((one.object, one.path, one.what), promise)
    return list(found.values())


def _cost_with(
    concession: Concession, values: Sequence[Object], demand: Demand, plan: Plan, catalog: Sequence[InstanceType],
    limits: Limits, keep_going: KeepGoing,
) -> Decimal | None:  # fmt: skip
    """What everything costs with a concession; None if then more pods go without."""
    changed = values if concession.edit is None else edited(values, concession, _made_from(concession.object, demand))
    if changed is None:
        return None
    again = demand_of(changed, demand.features)
    found = plan_for(again, catalog, concession.limits or limits, keep_going=_at_most(_STEPS, keep_going))
    return found.total if len(found.unserved) <= len(plan.unserved) else None


def _at_most(steps: int, keep_going: KeepGoing) -> KeepGoing:
    """A share of the time, so that one concession does not take it all."""
    left = iter(range(steps))
    return lambda: next(left, None) is not None and keep_going()


def _made_from(name: str, demand: Demand) -> frozenset[ObjectKey]:
    """The claims of waiting pods that a template has made already, or will."""
    kind, _, full = name.partition(" ")
    if kind != "ResourceClaimTemplate":
        return frozenset()
    return frozenset(
        key
        for pod in demand.waiting
        for key, template in pod.claims.templates.items()
        if f"{key.namespace}/{template}" == full
    )


def edited(
    values: Iterable[Object], concession: Concession, made: Collection[ObjectKey] = ()
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
                value = applied(value, path, concession.edit.becomes)
            except LookupError:
                return None
            # An API server has seen the old one, not this: it is completed and judged anew.
            if isinstance(value, ResourceClaim | ResourceClaimTemplate):
                value = altered(value, metadata=altered(value.metadata, uid=""))
            found = found or meant
        changed.append(value)
    return tuple(changed) if found else None
