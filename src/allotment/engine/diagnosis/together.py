"""Every request finds devices by itself; together they do not: there are too few, or they draw on the same counters."""

from __future__ import annotations

from allotment.engine.diagnosis.candidate_changes import ask_for, drop_one, free_claims
from allotment.engine.diagnosis.context import Cause, Scene, fewest, places, wanted_of
from allotment.engine.diagnosis.in_use import all_holders
from allotment.engine.diagnosis.scenario import Candidate, claim_name
from allotment.engine.diagnosis.unmet_constraints import constraints_compete
from allotment.engine.diagnosis.visible_devices import Seen
from allotment.engine.diagnosis.wording import listed, plural
from allotment.model.resource import ResourceClaim


def competition(scene: Scene, claims: tuple[ResourceClaim, ...]) -> Cause:
    """Every request fits alone, all of them together do not."""
    traces = [scene.trace(wanted_of(place, asked)) for claim in claims for place, asked in places(claim)]
    pool: dict[object, Seen] = {seen.id: seen for traced in traces for seen in traced.left}
    asked_for = sum(fewest(request) for claim in claims for request in claim.spec.devices.requests)
    what = "the claims of the pod" if len(claims) > 1 else "the requests of the claim"
    names = ", ".join(traced.wanted.name if len(claims) == 1 else traced.wanted.claim for traced in traces[:4])
    told = constraints_compete(scene, claims, f"{what} ({names})")
    if told is not None:
        return told
    holders = all_holders(traces)
    candidates: list[Candidate] = [] if not scene.busy else free_claims(holders)
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
