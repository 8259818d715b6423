"""Which cause it is that claims do not fit one node.

A class that does not exist comes before everything. Then the question is put to the idle node. If even that refuses,
the cause lies in what is asked or published, and who happens to hold devices now does not change the answer. Only if
the idle node accepts does the cause lie in what is in use. Within either world the refusal is narrowed down by asking
the engine for less: one claim of the pod, one request of the claim, the claim without its constraints.

A search that was given up proves nothing. Where any part of what is requested is refused for certain, that part is the
cause; otherwise the cause is that the search was given up.
"""

from __future__ import annotations

from dataclasses import replace

from allotment.engine.diagnosis.candidate_changes import ask_for, drop_one, fewer_devices, free_claims
from allotment.engine.diagnosis.context import Cause, Inquiry, Scene, fewest, places, wanted_of
from allotment.engine.diagnosis.holders import Holdings, holdings
from allotment.engine.diagnosis.in_use import all_holders
from allotment.engine.diagnosis.request import exact, first_unknown_class
from allotment.engine.diagnosis.scenario import (
    Candidate,
    World,
    claim_name,
    only_alternative,
    only_request,
    with_devices,
)
from allotment.engine.diagnosis.undecided import given_up, is_undecided
from allotment.engine.diagnosis.unmet_constraints import constraint_unmet, constraints_compete
from allotment.engine.diagnosis.visible_devices import Seen, look
from allotment.engine.diagnosis.wording import holding
from allotment.engine.outcome import AbortCause as Abort
from allotment.engine.outcome import Aborted, Allocated, Outcome
from allotment.engine.refusal import RANK
from allotment.model.resource import DeviceRequest, ResourceClaim
from allotment.phrases import counted


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
            f"{what} ({names}) want {asked_for} devices together, {len(pool)} are free; in use by {holding(holders)}"
        )
    else:
        code = "too-few-devices"
        have = f"{counted(len(pool), 'device')} of the node match{'es' if len(pool) == 1 else ''}"
        summary = f"{what} ({names}) want {asked_for} devices together, {have}"
    return Cause(code, summary, claim_name(claims[0]), "", tuple(traces), candidates=tuple(candidates))


def cause(world: World, inquiry: Inquiry) -> Cause:
    """Why ``world.claims`` do not fit; to be asked only when the engine refused them."""
    unknown = first_unknown_class(world)
    if unknown is not None:
        return unknown
    if world.allocated:
        idle = inquiry.attempts(world.idle())
        if isinstance(idle, Allocated) or is_undecided(idle):
            return _in_world(world, inquiry)
    return _in_world(world.idle(), inquiry)


def _in_world(world: World, inquiry: Inquiry) -> Cause:
    view = look(inquiry.attempts.inventory(world), world.node)
    scene = Scene(world, inquiry, view, holdings(world.allocated))
    outcomes = [(claim, inquiry.attempts(world.asking(claim))) for claim in world.claims]
    refused = [(claim, outcome) for claim, outcome in outcomes if not isinstance(outcome, Allocated)]
    together = inquiry.attempts(world)
    if not is_undecided(together):  # then what is undecided of one claim alone is not the cause
        refused = [(claim, outcome) for claim, outcome in refused if not is_undecided(outcome)]
    # An error stops Kubernetes, whatever else another claim lacks on this node.
    for claim, outcome in sorted(refused, key=lambda pair: _certainty(pair[1])):
        return _claim(scene, claim, outcome)
    if is_undecided(together):
        return given_up(scene, world.claims, together.steps)
    return competition(scene, world.claims)


def _certainty(outcome: Outcome) -> int:
    """Fatal errors come first, then refusals, then searches that were given up."""
    return 2 if is_undecided(outcome) else 0 if isinstance(outcome, Aborted) else 1


def _claim(scene: Scene, claim: ResourceClaim, outcome: Outcome) -> Cause:
    name = claim_name(claim)
    if isinstance(outcome, Aborted):
        told = _abort(scene, claim, outcome)
        if told is not None:
            return told
    for request in claim.spec.devices.requests:
        alone = scene.inquiry.attempts(scene.world.asking(only_request(claim, request)))
        if isinstance(alone, Allocated) or is_undecided(alone):
            continue
        return _request(scene, claim, request, alone)
    if is_undecided(outcome):
        return given_up(scene, (claim,), outcome.steps)
    if claim.spec.devices.constraints and scene.fits(with_devices(claim, constraints=())):
        return constraint_unmet(scene, claim)
    return replace(competition(scene, (claim,)), claim=name)


def _abort(scene: Scene, claim: ResourceClaim, outcome: Aborted) -> Cause | None:
    """Errors that need no funnel."""
    name = claim_name(claim)
    request = outcome.request or ""
    if outcome.cause is Abort.TOO_MANY_DEVICES:
        least = sum(fewest(r) for r in claim.spec.devices.requests)
        summary = f"{least} devices are asked for in one claim, which may have 32" if least > 32 else outcome.text
        fewer = fewer_devices(scene, claim, 32)
        return Cause("too-many-devices", summary, name, candidates=fewer, kubernetes=outcome.text)
    if outcome.cause is Abort.FEATURE_OFF:
        return Cause("feature-off", outcome.text, name, request, kubernetes=outcome.text)
    if outcome.cause is Abort.NODE_SELECTION:
        return Cause("node-selector-unusable", outcome.text, name, request, kubernetes=outcome.text)
    if outcome.cause is Abort.BAD_REQUEST:
        return Cause("invalid-manifest", outcome.text, name, request, kubernetes=outcome.text)
    return None


def _request(scene: Scene, claim: ResourceClaim, request: DeviceRequest, outcome: Outcome) -> Cause:
    if isinstance(outcome, Aborted):
        told = _abort(scene, only_request(claim, request), outcome)
        if told is not None:
            return told
    name = claim_name(claim)
    spots = {place.name: place for place, _ in places(claim)}
    if request.exactly is not None:
        return exact(scene, spots[request.name], request.exactly, outcome)
    alternatives = []
    for sub in request.first_available:
        single = only_request(claim, only_alternative(request, sub.name))
        world = scene.world.asking(single)
        alone = scene.inquiry.attempts(world.idle())
        of = scene if isinstance(alone, Allocated) else _idle(scene)
        if isinstance(alone, Allocated):
            alone = scene.inquiry.attempts(world)
        if is_undecided(alone):
            alternatives.append(given_up(of, (single,), alone.steps))
            continue
        alternatives.append(exact(of, spots[f"{request.name}/{sub.name}"], sub, alone))
    words = ", ".join(f"{a.request.partition('/')[2]} {a.code}" for a in alternatives)
    nearest_first = sorted(alternatives, key=lambda a: RANK[a.code])
    return Cause(
        "no-alternative-fits",
        f"none of the {len(alternatives)} alternatives fits: {words}",
        name,
        request.name,
        alternatives=tuple(alternatives),
        candidates=tuple(c for a in nearest_first for c in a.candidates),
    )


def _idle(scene: Scene) -> Scene:
    return Scene(scene.world.idle(), scene.inquiry, scene.view, Holdings())
