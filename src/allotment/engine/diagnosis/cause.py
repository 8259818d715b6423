"""Finds the reason why claims do not fit on a node, even if the search stopped at its step limit.

A missing class takes precedence. Then the claims are tried on the idle node. If they do not fit there, the cause lies
in the requests or in the published devices, independent of the current usage. Only if they fit on the idle node is the
usage the cause. In either scenario the cause is narrowed down by trying less: one claim of the pod, one request of the
claim, the claim without its constraints.

A search that reached its step limit proves nothing. If any part of the claims is refused for certain, that part is the
cause; otherwise the cause is the step limit.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TypeGuard

from allotment.engine.diagnosis.candidate_changes import drop_claim, fewer_devices, free_claims, request_count
from allotment.engine.diagnosis.claim_errors import capacity_not_representable, derived_attribute_fails
from allotment.engine.diagnosis.context import Cause, NodeContext, SharedContext, fewest, query_of, requests_of
from allotment.engine.diagnosis.group_mismatch import fewer_of, groups_differ
from allotment.engine.diagnosis.holders import HeldDevices, held_devices
from allotment.engine.diagnosis.in_use import all_holders
from allotment.engine.diagnosis.request import first_unknown_class, request_cause
from allotment.engine.diagnosis.scenario import (
    CandidateChange,
    Scenario,
    claim_name,
    only_alternative,
    only_request,
    with_devices,
)
from allotment.engine.diagnosis.unmet_constraints import constraint_unmet, constraints_compete
from allotment.engine.diagnosis.visible_devices import VisibleDevice, visible_devices
from allotment.engine.diagnosis.wording import holder_names
from allotment.engine.outcome import AbortCause, Aborted, Allocated, Outcome
from allotment.engine.refusal import CODES, RANK, SEARCH_GIVEN_UP
from allotment.model.resource import DeviceRequest, ResourceClaim
from allotment.phrases import counted


def requests_compete(context: NodeContext, claims: tuple[ResourceClaim, ...]) -> Cause:
    """The cause if every request fits individually, but not all of them together."""
    traces = [context.trace(query_of(location, spec)) for claim in claims for location, spec in requests_of(claim)]
    pool: dict[object, VisibleDevice] = {visible.id: visible for trace in traces for visible in trace.left}
    needed = sum(fewest(request) for claim in claims for request in claim.spec.devices.requests)
    subject = "the claims of the pod" if len(claims) > 1 else "the requests of the claim"
    names = ", ".join(trace.query.name if len(claims) == 1 else trace.query.claim for trace in traces[:4])
    cause = constraints_compete(context, claims, f"{subject} ({names})")
    if cause is not None:
        return cause
    if any(member.groups for visible in pool.values() for member in visible.traits.groups):
        if context.fits_without_groups(*claims):
            smaller = [fewer_of(location, spec.count) for claim in claims for location, spec in requests_of(claim)]
            changes = (*itertools.chain(*smaller), *drop_claim(claims))
            return groups_differ(context, claim_name(claims[0]), "", tuple(traces), changes)
    holders = all_holders(traces)
    candidates: list[CandidateChange] = [] if not context.is_busy else free_claims(holders)
    for claim in claims:
        for location, spec in requests_of(claim):
            if spec.count > 1:
                candidates.extend(request_count(location, spec.count, c) for c in range(spec.count - 1, 0, -1))
    if len(claims) > 1 or sum(len(c.spec.devices.requests) for c in claims) > 1:
        candidates.extend(drop_claim(claims))
    uses_counters = any(visible.device.consumes_counters for visible in pool.values()) and len(pool) >= needed
    if uses_counters:
        code = "counters-exhausted"
        summary = f"{subject} ({names}) fit individually, but together they exceed the shared counters"
    elif context.is_busy:
        code = "devices-in-use"
        summary = (
            f"{subject} ({names}) need {needed} devices in total; {len(pool)} {'is' if len(pool) == 1 else 'are'} free,"
            f" and the rest are in use by {holder_names(holders)}"
        )
    else:
        code = "too-few-devices"
        have = f"{counted(len(pool), 'device')} on the node match{'es' if len(pool) == 1 else ''}"
        summary = f"{subject} ({names}) need {needed} devices in total; {have}"
    return Cause(code, summary, claim_name(claims[0]), "", tuple(traces), candidates=tuple(candidates))


def find_cause(scenario: Scenario, shared: SharedContext) -> Cause:
    """The reason why the claims of the scenario do not fit; call it only if the engine refused them."""
    unknown = first_unknown_class(scenario)
    if unknown is not None:
        return unknown
    if scenario.allocated:
        idle = shared.trials(scenario.idle())
        if isinstance(idle, Allocated) or is_undecided(idle):
            return _scenario_cause(scenario, shared)
    return _scenario_cause(scenario.idle(), shared)


def _scenario_cause(scenario: Scenario, shared: SharedContext) -> Cause:
    view = visible_devices(shared.trials.inventory(scenario), scenario.node)
    context = NodeContext(scenario, shared, view, held_devices(scenario.allocated, shared.reader))
    outcomes = [(claim, shared.trials(scenario.with_claims(claim))) for claim in scenario.claims]
    refused = [(claim, outcome) for claim, outcome in outcomes if not isinstance(outcome, Allocated)]
    together = shared.trials(scenario)
    if not is_undecided(together):  # an undecided single claim is then not the cause
        refused = [(claim, outcome) for claim, outcome in refused if not is_undecided(outcome)]
    # A fatal error stops Kubernetes, even if another claim is refused on this node.
    for claim, outcome in sorted(refused, key=lambda pair: _certainty(pair[1])):
        return _claim(context, claim, outcome)
    if is_undecided(together):
        return search_given_up(context, scenario.claims, together.steps)
    return requests_compete(context, scenario.claims)


def _certainty(outcome: Outcome) -> int:
    """Sort key: fatal errors first, then refusals, then undecided searches."""
    return 2 if is_undecided(outcome) else 0 if isinstance(outcome, Aborted) else 1


def _claim(context: NodeContext, claim: ResourceClaim, outcome: Outcome) -> Cause:
    name = claim_name(claim)
    if isinstance(outcome, Aborted):
        cause = _abort_cause(context, claim, outcome)
        if cause is not None:
            return cause
    for request in claim.spec.devices.requests:
        alone = context.shared.trials(context.scenario.with_claims(only_request(claim, request)))
        if isinstance(alone, Allocated) or is_undecided(alone):
            continue
        return _request(context, claim, request, alone)
    if is_undecided(outcome):
        return search_given_up(context, (claim,), outcome.steps)
    if claim.spec.devices.constraints and context.fits(with_devices(claim, constraints=())):
        return constraint_unmet(context, claim)
    return replace(requests_compete(context, (claim,)), claim=name)


def _abort_cause(context: NodeContext, claim: ResourceClaim, outcome: Aborted) -> Cause | None:
    """The cause of an error that needs no funnel, if it is one."""
    name = claim_name(claim)
    request = outcome.request or ""
    if outcome.cause is AbortCause.TOO_MANY_DEVICES:
        least = sum(fewest(r) for r in claim.spec.devices.requests)
        summary = f"{least} devices requested in one claim; the limit is 32" if least > 32 else outcome.text
        fewer = fewer_devices(context, claim, 32)
        return Cause("too-many-devices", summary, name, candidates=fewer, kubernetes=outcome.text)
    if outcome.cause is AbortCause.FEATURE_OFF:
        return Cause("feature-off", outcome.text, name, request, kubernetes=outcome.text)
    if outcome.cause is AbortCause.DERIVED_ATTRIBUTE:
        return derived_attribute_fails(context, claim, outcome)
    if outcome.cause is AbortCause.CAPACITY:
        return capacity_not_representable(context, claim, outcome)
    if outcome.cause is AbortCause.NODE_SELECTION:
        return Cause("node-selector-unusable", outcome.text, name, request, kubernetes=outcome.text)
    if outcome.cause is AbortCause.BAD_REQUEST:
        return Cause("invalid-manifest", outcome.text, name, request, kubernetes=outcome.text)
    return None


def _request(context: NodeContext, claim: ResourceClaim, request: DeviceRequest, outcome: Outcome) -> Cause:
    if isinstance(outcome, Aborted):
        cause = _abort_cause(context, only_request(claim, request), outcome)
        if cause is not None:
            return cause
    name = claim_name(claim)
    locations = {location.name: location for location, _ in requests_of(claim)}
    if request.exactly is not None:
        return request_cause(context, locations[request.name], request.exactly, outcome)
    alternatives = []
    for sub in request.first_available:
        single = only_request(claim, only_alternative(request, sub.name))
        scenario = context.scenario.with_claims(single)
        alone = context.shared.trials(scenario.idle())
        of = context if isinstance(alone, Allocated) else _idle(context)
        if isinstance(alone, Allocated):
            alone = context.shared.trials(scenario)
        if is_undecided(alone):
            alternatives.append(search_given_up(of, (single,), alone.steps))
            continue
        alternatives.append(request_cause(of, locations[f"{request.name}/{sub.name}"], sub, alone))
    listed_codes = ", ".join(f"{a.request.partition('/')[2]} ({a.code})" for a in alternatives)
    nearest_first = sorted(alternatives, key=lambda a: RANK[a.code])
    return Cause(
        "no-alternative-fits",
        f"none of the {len(alternatives)} alternatives fits: {listed_codes}",
        name,
        request.name,
        alternatives=tuple(alternatives),
        candidates=tuple(c for a in nearest_first for c in a.candidates),
    )


def _idle(context: NodeContext) -> NodeContext:
    return NodeContext(context.scenario.idle(), context.shared, context.view, HeldDevices())


def is_undecided(outcome: Outcome) -> TypeGuard[Aborted]:
    """Whether the search reached its step limit, so that the claims may fit."""
    return isinstance(outcome, Aborted) and outcome.cause is AbortCause.WORK_LIMIT


def search_given_up(context: NodeContext, claims: tuple[ResourceClaim, ...], steps: int) -> Cause:
    """The cause if a search reached its step limit: the obstacle is unknown, so no change is suggested.

    It has the funnel of each request of ``claims``.
    """
    traces = tuple(context.trace(query_of(location, spec)) for claim in claims for location, spec in requests_of(claim))
    only = traces[0].query.name if len(traces) == 1 else ""
    summary = f"the search for devices stopped after {steps} steps without a result"
    kubernetes = CODES[SEARCH_GIVEN_UP].kubernetes.replace("N", context.scenario.node, 1)
    return Cause(SEARCH_GIVEN_UP, summary, traces[0].query.claim, only, traces, kubernetes=kubernetes)
