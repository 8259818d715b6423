"""Every request finds devices by itself, but no set of them satisfies the constraints: the last step of the funnel.

A constraint concerns devices of several requests together. The step keeps of each request the devices that belong to
the set which comes nearest to what is asked: with ``matchAttribute`` those that share the value which serves most of
the devices asked for, with ``distinctAttribute`` the first one of each value. Devices without the attribute are lost,
as they satisfy no constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as altered

from allotment.engine.claims.constraints import Constraint, Element, Elements, constraint, elements, find_attribute
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.candidate_changes import ask_for, drop_constraint, free_claims
from allotment.engine.diagnosis.context import Cause, Scene, places, wanted_of
from allotment.engine.diagnosis.funnel import Loss, Trace
from allotment.engine.diagnosis.in_use import all_holders
from allotment.engine.diagnosis.published_names import near, qualified
from allotment.engine.diagnosis.scenario import Candidate, Place, claim_name, edit_constraint, with_devices
from allotment.engine.diagnosis.selector_conditions import shown
from allotment.engine.diagnosis.visible_devices import Seen
from allotment.engine.diagnosis.wording import holding, named
from allotment.engine.refusal import Miss
from allotment.model.resource import DeviceConstraint, ResourceClaim
from allotment.phrases import counted

#: A request or alternative with its funnel so far.
Traced = tuple[Place, Trace]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a constraint makes of the devices that arrive at it; ``groups`` are those devices by value."""

    traced: tuple[Traced, ...]
    groups: dict[Element, list[Seen]]
    lacking: tuple[Seen, ...]
    best: tuple[Seen, ...]
    need: int
    agree: int


def constraint_unmet(scene: Scene, claim: ResourceClaim) -> Cause:
    """The claim fits without its constraints, and not with them."""
    specs = claim.spec.devices.constraints
    blamed = _blamed(scene, claim)
    traced: tuple[Traced, ...] = tuple((p, scene.trace(wanted_of(p, asked))) for p, asked in places(claim))
    found = None
    for index in blamed:
        found = _narrowed(scene, specs[index], traced)
        traced = found.traced
    assert found is not None
    spec = specs[blamed[-1]]
    bound = [(place, trace) for place, trace in traced if any(_binds(specs[i], place) for i in blamed)]
    if not found.groups and len(blamed) == 1:
        return _unpublished(claim, blamed[0], found, bound)
    short = _attribute(spec).rpartition("/")[2]
    kind, have, what = ("equal", f"at most {found.agree} agree", "devices with one value")
    if spec.match_attribute is None:
        there = f"there {'is' if len(found.groups) == 1 else 'are'} {counted(len(found.groups), 'value')}"
        kind, have, what = ("different", there, "different values")
    values = [f"{shown(value[1])}: {named(tuple(seen))}" for value, seen in found.groups.items()]
    spread = "; ".join(values[:4]) + (f"; and {len(values) - 4} more values" if len(values) > 4 else "")
    if found.agree >= found.need:  # so it is not the values alone
        drawing = any(seen.device.consumes_counters for seen in found.best)
        have = f"{named(found.best)} would do, but " + (
            "draw on the same counters" if drawing else "cannot be taken together"
        )
    summary = f"{counted(found.need, 'device')} with {kind} {short} asked, {have}" + (f" ({spread})" if spread else "")
    if len(blamed) > 1:
        others = " and ".join(_text(specs[i]) for i in blamed[:-1])
        summary = f"{summary}; {others} {'is' if len(blamed) == 2 else 'are'} to hold as well"
    nearest = None
    if found.best:
        nearest = Miss(
            device=named(found.best),
            what=short,
            actual=", ".join(shown(value[1]) for value in _values_of(found)),
            wanted=f"{found.need} {what}",
        )
    notes: tuple[str, ...] = ()
    if found.lacking:
        notes = (f"{named(found.lacking)}: no attribute {_attribute(spec)}, so never accepted by the constraint",)
    candidates = [drop_constraint(claim_name(claim), i, specs[i], _attribute(specs[i])) for i in blamed]
    for place, asked in places(claim):
        fewer = max(1, asked.count - (found.need - found.agree))
        if fewer < asked.count:
            candidates.append(ask_for(place, asked.count, fewer))
    return _told(scene, claim_name(claim), summary, [trace for _, trace in bound], nearest, candidates, notes)


def constraints_compete(scene: Scene, claims: tuple[ResourceClaim, ...], what: str) -> Cause | None:
    """Claims that fit one by one, and together only without their constraints; None if it is not that."""
    free = [with_devices(claim, constraints=()) for claim in claims]
    if free == list(claims) or not scene.fits(*free):
        return None
    traces: list[Trace] = []
    candidates: list[Candidate] = []
    unmet: list[str] = []
    for claim in claims:
        traced: tuple[Traced, ...] = tuple((p, scene.trace(wanted_of(p, asked))) for p, asked in places(claim))
        for index, spec in enumerate(claim.spec.devices.constraints):
            traced = _narrowed(scene, spec, traced).traced
            candidates.append(drop_constraint(claim_name(claim), index, spec, _attribute(spec)))
            unmet.append(_text(spec))
        traces.extend(trace for _, trace in traced)
    summary = f"{what} fit one by one; together no devices are left for {' and '.join(dict.fromkeys(unmet))}"
    return _told(scene, claim_name(claims[0]), summary, traces, None, candidates, ())


def _told(
    scene: Scene,
    claim: str,
    summary: str,
    traces: list[Trace],
    nearest: Miss | None,
    candidates: list[Candidate],
    notes: tuple[str, ...],
) -> Cause:
    """On an idle node the values are to blame; on a busy one, which would do while idle, those who hold the others."""
    code = "constraint-values-differ"
    if scene.busy:
        holders = all_holders(traces)
        code = "devices-in-use"
        summary = f"{summary}; others that would do are in use by {holding(holders)}"
        candidates = [*candidates, *free_claims(holders)]
    return Cause(code, summary, claim, "", tuple(traces), nearest, tuple(candidates), notes=notes)


def _blamed(scene: Scene, claim: ResourceClaim) -> tuple[int, ...]:
    """The first constraint that is unmet by itself, else the first few that are so together."""
    specs = claim.spec.devices.constraints
    for index, spec in enumerate(specs):
        if not scene.fits(with_devices(claim, constraints=(spec,))):
            return (index,)
    count = next(n for n in range(2, len(specs) + 1) if not scene.fits(with_devices(claim, constraints=specs[:n])))
    return tuple(range(count))


def _attribute(spec: DeviceConstraint) -> str:
    return spec.match_attribute or spec.distinct_attribute or ""


def _text(spec: DeviceConstraint) -> str:
    return f"{'matchAttribute' if spec.match_attribute else 'distinctAttribute'} {_attribute(spec)}"


def _binds(spec: DeviceConstraint, place: Place) -> bool:
    rule = constraint(spec)
    return rule is not None and rule.applies(place.request, place.name)


def _narrowed(scene: Scene, spec: DeviceConstraint, traced: Sequence[Traced]) -> Agreement:
    """One more step for the requests that the constraint binds."""
    rule = constraint(spec)
    if rule is None:
        return Agreement(tuple(traced), {}, (), (), 0, 0)
    lists = scene.world.features.enabled("DRAListTypeAttributes")
    bound = [trace for place, trace in traced if rule.applies(place.request, place.name)]
    arriving = {seen.id: seen for trace in bound for seen in trace.left}.values()
    values = {seen.id: elements(find_attribute(seen.device, seen.driver, rule.attribute), lists) for seen in arriving}
    groups: dict[Element, list[Seen]] = {}
    for seen in arriving:
        for value in values[seen.id] or ():
            groups.setdefault(value, []).append(seen)
    requests: dict[str, list[Trace]] = {}
    for place, trace in traced:
        if rule.applies(place.request, place.name):
            requests.setdefault(place.request, []).append(trace)
    need = sum(min(_count(trace) for trace in alternatives) for alternatives in requests.values())
    kept = _distinct(arriving, values) if rule.distinct else _matching(groups, requests)
    best = tuple(seen for seen in arriving if seen.id in kept)
    return Agreement(
        tuple((place, _step(trace, spec, rule, place, kept, values)) for place, trace in traced),
        groups,
        tuple(seen for seen in arriving if not values[seen.id]),
        best,
        need,
        _served(requests.values(), kept),
    )


def _count(trace: Trace) -> int:
    return trace.wanted.count or len(trace.left)


def _served(requests: Iterable[list[Trace]], devices: frozenset[DeviceID]) -> int:
    """How many of the devices asked for these could be at most."""
    found, shared = 0, False
    used: set[DeviceID] = set()
    for alternatives in requests:
        most = 0
        for trace in alternatives:
            mine = [seen for seen in trace.left if seen.id in devices]
            used.update(seen.id for seen in mine)
            several = any(seen.device.allow_multiple_allocations for seen in mine)
            shared = shared or several
            most = max(most, _count(trace) if several else min(_count(trace), len(mine)))
        found += most
    return found if shared else min(found, len(used))


def _matching(groups: dict[Element, list[Seen]], requests: dict[str, list[Trace]]) -> frozenset[DeviceID]:
    """The devices of the value that serves most of what is asked; of equal ones the first."""
    sets = [frozenset(seen.id for seen in group) for group in groups.values()]
    return max(sets, key=lambda group: _served(requests.values(), group), default=frozenset())


def _distinct(arriving: Iterable[Seen], values: dict[DeviceID, Elements | None]) -> frozenset[DeviceID]:
    """Devices with different values, the first of each."""
    taken: set[Element] = set()
    kept: set[DeviceID] = set()
    for seen in arriving:
        mine = values[seen.id]
        if mine and taken.isdisjoint(mine):
            taken.update(mine)
            kept.add(seen.id)
    return frozenset(kept)


def _step(
    trace: Trace,
    spec: DeviceConstraint,
    rule: Constraint,
    place: Place,
    kept: frozenset[DeviceID],
    values: dict[DeviceID, Elements | None],
) -> Trace:
    """The funnel with the constraint at its end. For differing values each request counts what it could have itself."""
    if not rule.applies(place.request, place.name):
        return trace
    mine = _distinct(trace.left, values) if rule.distinct else kept
    left = tuple(seen for seen in trace.left if seen.id in mine)
    return replace(trace, losses=(*trace.losses, Loss("constraint", _text(spec), trace.left, left)))


def _values_of(found: Agreement) -> list[Element]:
    """The value that the nearest set shares, else the first few values."""
    ids = {seen.id for seen in found.best}
    groups = [value for value, seen in found.groups.items() if ids <= {s.id for s in seen}]
    return groups[:1] or list(found.groups)[:4]


def _unpublished(claim: ResourceClaim, index: int, found: Agreement, bound: list[Traced]) -> Cause:
    """No device has the attribute: a name that is near, or what there is."""
    name, spec = claim_name(claim), claim.spec.devices.constraints[index]
    attribute, field = _attribute(spec), "match_attribute" if spec.match_attribute else "distinct_attribute"
    known: dict[str, None] = {}
    for seen in found.lacking:
        for key in seen.device.attributes:
            known["/".join(qualified(key, seen.driver))] = None
    bare = attribute.rpartition("/")[2]
    by_bare = {full.rpartition("/")[2]: full for full in known}
    names = near(attribute, known) if bare not in by_bare else (by_bare[bare],)
    same_domain = [by_bare[n] for n in near(bare, by_bare)]
    offered = tuple(dict.fromkeys([*same_domain, *names]))[:3]
    meant = (
        f" Did you mean {' or '.join(shown(n) for n in offered[:2])}?"
        if offered
        else f" Published: {', '.join(sorted(known))}"
    )
    summary = f'no matching device publishes "{attribute}", which the constraint compares.{meant}'
    path = f"spec.devices.constraints[{index}].{'matchAttribute' if spec.match_attribute else 'distinctAttribute'}"
    candidates = [
        Candidate(
            "name",
            f"constrain {new}",
            edit_constraint(name, index, altered(spec, **{field: new})),
            f"ResourceClaim {name}",
            path,
            new,
        )
        for new in offered
    ]
    candidates.append(drop_constraint(name, index, spec, attribute))
    traces = tuple(trace for _, trace in bound)
    return Cause("constraint-attribute-unpublished", summary, name, "", traces, candidates=tuple(candidates))
