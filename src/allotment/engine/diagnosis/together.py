"""Every request finds devices by itself; together they do not: too few, or no set that satisfies a constraint."""

from __future__ import annotations

from msgspec.structs import replace as altered

from allotment.engine.diagnosis.conditions import shown
from allotment.engine.diagnosis.edits import ask_for, drop_constraint, drop_one, free_claims
from allotment.engine.diagnosis.funnel import Trace
from allotment.engine.diagnosis.holders import Holder
from allotment.engine.diagnosis.names import attribute_value, find_attribute, near, qualified
from allotment.engine.diagnosis.scene import Cause, Scene, fewest, places, wanted_of
from allotment.engine.diagnosis.taken import holders_of
from allotment.engine.diagnosis.view import Seen
from allotment.engine.diagnosis.wording import listed, named, plural
from allotment.engine.diagnosis.world import Candidate, claim_name, edit_constraint, with_devices
from allotment.engine.refusal import Miss
from allotment.model.resource import DeviceConstraint, ResourceClaim


def competition(scene: Scene, claims: tuple[ResourceClaim, ...]) -> Cause:
    """Every request fits alone, all of them together do not."""
    traces = [scene.trace(wanted_of(place, asked)) for claim in claims for place, asked in places(claim)]
    pool: dict[object, Seen] = {seen.id: seen for traced in traces for seen in traced.left}
    asked_for = sum(fewest(request) for claim in claims for request in claim.spec.devices.requests)
    what = "the claims of the pod" if len(claims) > 1 else "the requests of the claim"
    names = ", ".join(traced.wanted.name if len(claims) == 1 else traced.wanted.claim for traced in traces[:4])
    holders: list[Holder] = []
    for traced in traces:
        for loss in traced.losses:
            if loss.step in ("in-use", "counters"):
                holders.extend(h for h in holders_of(loss) if h not in holders)
    candidates: list[Candidate] = [] if not scene.busy else free_claims(holders, scene)
    for claim in claims:
        for place, asked in places(claim):
            if asked.count > 1:
                candidates.extend(ask_for(place, asked.count, c) for c in range(asked.count - 1, 0, -1))
    if len(claims) > 1 or sum(len(c.spec.devices.requests) for c in claims) > 1:
        candidates.extend(drop_one(claims))
    drawn = any(seen.device.consumes_counters for seen in pool.values()) and len(pool) >= asked_for
    if drawn:
        code = "counters-exhausted"
        summary = f"{what} ({names}) fit one by one; together they draw too much on the same counters"
    elif scene.busy:
        code = "devices-in-use"
        summary = (
            f"{what} ({names}) want {asked_for} devices together, {len(pool)} are free; in use by {listed(holders)}"
        )
    else:
        code = "too-few-devices"
        have = f"{plural(len(pool), 'device')} of the node match{'es' if len(pool) == 1 else ''}"
        summary = f"{what} ({names}) want {asked_for} devices together, {have}"
    return Cause(code, summary, claim_name(claims[0]), "", tuple(traces), candidates=tuple(candidates))


def constraint_unmet(scene: Scene, claim: ResourceClaim) -> Cause:
    """The claim fits without its constraints, and not with them."""
    constraints = claim.spec.devices.constraints
    name = claim_name(claim)
    index = next((i for i, c in enumerate(constraints) if not scene.fits(with_devices(claim, constraints=(c,)))), 0)
    constraint = constraints[index]
    attribute = constraint.match_attribute or constraint.distinct_attribute or ""
    traces = []
    for place, asked in places(claim):
        if not constraint.requests or place.request in constraint.requests or place.name in constraint.requests:
            traces.append(scene.trace(wanted_of(place, asked)))
    reaching = list({seen.id: seen for traced in traces for seen in traced.left}.values())
    values = {seen.id: _value(seen, attribute) for seen in reaching}
    if not any(v is not None for v in values.values()):
        return _unpublished(scene, claim, index, constraint, attribute, reaching, traces)
    groups: dict[object, list[Seen]] = {}
    for seen in reaching:
        if values[seen.id] is not None:
            groups.setdefault(values[seen.id], []).append(seen)
    need = sum(t.wanted.count or 1 for t in traces)
    best = max(groups.values(), key=len)
    spread = "; ".join(f"{shown(value)}: {named(tuple(seen))}" for value, seen in list(groups.items())[:4])
    lacking = [s for s in reaching if values[s.id] is None]
    short = attribute.rpartition("/")[2]
    if constraint.match_attribute:
        summary = f"{need} devices with equal {short} asked, at most {len(best)} agree ({spread})"
        nearest = Miss(
            device=named(tuple(best)),
            what=short,
            actual=shown(values[best[0].id]),
            wanted=f"{need} devices with one value",
        )
    else:
        there = f"there {'is' if len(groups) == 1 else 'are'} {plural(len(groups), 'value')}"
        summary = f"{need} devices with different {short} asked, {there} ({spread})"
        nearest = Miss(
            device=named(tuple(reaching)),
            what=short,
            actual=", ".join(shown(v) for v in list(groups)[:4]),
            wanted=f"{need} different values",
        )
    notes = (
        (f"{named(tuple(lacking))}: no attribute {attribute}, so never accepted by the constraint",) if lacking else ()
    )
    candidates = [drop_constraint(name, index, constraint, attribute)]
    fewer = len(best) if constraint.match_attribute else len(groups)
    for place, asked in places(claim):
        if asked.count > 1 and fewer:
            candidates.append(ask_for(place, asked.count, max(1, asked.count - (need - fewer))))
    code = "constraint-values-differ"
    if scene.busy:
        taking = [loss for t in traces for loss in t.losses if loss.step in ("in-use", "counters")]
        holders = list(dict.fromkeys(h for loss in taking for h in holders_of(loss)))
        code = "devices-in-use"
        summary = f"{summary}; others that would agree are in use by {listed(holders)}"
        candidates.extend(free_claims(holders, scene))
    return Cause(code, summary, name, "", tuple(traces), nearest, tuple(candidates), notes=notes)


def _value(seen: Seen, attribute: str) -> object | None:
    domain, _, name = attribute.rpartition("/")
    found = find_attribute(seen.device, seen.driver, domain, name)
    return None if found is None else attribute_value(found)


def _unpublished(
    scene: Scene,
    claim: ResourceClaim,
    index: int,
    constraint: DeviceConstraint,
    attribute: str,
    reaching: list[Seen],
    traces: list[Trace],
) -> Cause:
    known: dict[str, None] = {}
    for seen in reaching:
        for key in seen.device.attributes:
            domain, short = qualified(key, seen.driver)
            known[f"{domain}/{short}"] = None
    domain, _, bare = attribute.rpartition("/")
    by_bare = {name.rpartition("/")[2]: name for name in known}
    names = near(attribute, known) if bare not in by_bare else (by_bare[bare],)
    same_domain = [by_bare[n] for n in near(bare, by_bare)]
    offered = tuple(dict.fromkeys([*same_domain, *names]))[:3]
    meant = (
        f" Did you mean {' or '.join(shown(n) for n in offered[:2])}?"
        if offered
        else f" Published: {', '.join(sorted(known))}"
    )
    summary = f'no matching device publishes "{attribute}", which the constraint compares.{meant}'
    candidates = [
        Candidate(
            1,
            f"constrain {new}",
            edit_constraint(
                claim_name(claim),
                index,
                altered(constraint, match_attribute=new)
                if constraint.match_attribute
                else altered(constraint, distinct_attribute=new),
            ),
            f"ResourceClaim {claim_name(claim)}",
            f"spec.devices.constraints[{index}]."
            + ("matchAttribute" if constraint.match_attribute else "distinctAttribute"),
            new,
        )
        for new in offered
    ]
    candidates.append(drop_constraint(claim_name(claim), index, constraint, attribute))
    return Cause(
        "constraint-attribute-unpublished", summary, claim_name(claim), "", tuple(traces), candidates=tuple(candidates)
    )
