"""Causes of refusal in constraints: all requests have matching devices, but no set of them meets the constraints.

A constraint is the last step of the funnel and applies to devices of several requests together. The step keeps the
devices of the set that is nearest to satisfying the requests: with ``matchAttribute`` those with the value that serves
most of the requested devices, with ``distinctAttribute`` the first device of each value. Devices without the attribute
are lost, because they never satisfy a constraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as altered

from allotment.cel import CompileError, DerivedAttribute, DeviceInput, EvaluationError, compile_derived_attribute
from allotment.engine.claims.constraints import Constraint, Element, Elements, constraint, elements, find_attribute
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.candidate_changes import (
    drop_constraint,
    free_claims,
    request_count,
    without_derived_attribute,
)
from allotment.engine.diagnosis.condition_text import value_text
from allotment.engine.diagnosis.context import Cause, NodeContext, definitions_of, query_of, requests_of
from allotment.engine.diagnosis.funnel import Loss, Trace
from allotment.engine.diagnosis.in_use import all_holders
from allotment.engine.diagnosis.published_names import qualified, similar_names
from allotment.engine.diagnosis.scenario import (
    CandidateChange,
    RequestLocation,
    claim_name,
    edit_constraint,
    with_devices,
)
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.engine.diagnosis.wording import device_names, holder_names
from allotment.engine.refusal import NearestMiss
from allotment.model.features import Features
from allotment.model.resource import DeviceAttribute, DeviceConstraint, ResourceClaim
from allotment.phrases import counted

#: An exact request or alternative with its funnel.
TracedRequest = tuple[RequestLocation, Trace]


@dataclass(frozen=True, slots=True)
class ConstraintResult:
    """The effect of a constraint on its devices; ``groups`` are the devices by value."""

    traced: tuple[TracedRequest, ...]
    groups: dict[Element, list[VisibleDevice]]
    lacking: tuple[VisibleDevice, ...]
    best: tuple[VisibleDevice, ...]
    need: int
    agree: int


def constraint_unmet(context: NodeContext, claim: ResourceClaim) -> Cause:
    """The cause of a claim that fits only without its constraints."""
    specs = claim.spec.devices.constraints
    unmet = _unmet(context, claim)
    traced: tuple[TracedRequest, ...] = tuple((p, context.trace(query_of(p, spec))) for p, spec in requests_of(claim))
    found = None
    for index in unmet:
        found = _narrowed(context, specs[index], traced)
        traced = found.traced
    assert found is not None
    spec = specs[unmet[-1]]
    bound = [(location, trace) for location, trace in traced if any(_binds(specs[i], location) for i in unmet)]
    definitions = definitions_of(claim, _attribute(spec))
    if not found.groups and len(unmet) == 1 and not definitions:
        return _unpublished(claim, unmet[0], found, bound)
    short = _attribute(spec).rpartition("/")[2]
    shared = f"at most {found.agree} share one" if found.agree > 1 else "no two devices share one"
    kind, have, goal = (f"the same {short}", shared, "devices with the same value")
    if spec.match_attribute is None:
        values_exist = f"only {counted(len(found.groups), 'value exists', 'values exist')}"
        kind, have, goal = (f"different {short}", values_exist, "different values")
    values = [f"{value_text(value[1])}: {device_names(tuple(visible))}" for value, visible in found.groups.items()]
    spread = "; ".join(values[:4]) + (f"; and {len(values) - 4} more values" if len(values) > 4 else "")
    if found.agree >= found.need:  # so it is not the values alone
        drawing = any(visible.device.consumes_counters for visible in found.best)
        have = f"{device_names(found.best)} satisfy the constraint, but " + (
            "consume the same counters" if drawing else "cannot be allocated together"
        )
    summary = f"{counted(found.need, 'device')} with {kind} requested; {have}" + (f" ({spread})" if spread else "")
    if len(unmet) > 1:
        others = " and ".join(_text(specs[i]) for i in unmet[:-1])
        summary = f"{summary}; {others} must also be satisfied"
    nearest = None
    if found.best:
        nearest = NearestMiss(
            device=device_names(found.best),
            what=short,
            actual=", ".join(value_text(value[1]) for value in _values_of(found)),
            wanted=f"{found.need} {goal}",
        )
    notes: tuple[str, ...] = ()
    if found.lacking:
        notes = (f"{device_names(found.lacking)}: no attribute {_attribute(spec)}, which the constraint requires",)
    candidates = [_dropped(claim, i) for i in unmet]
    for location, request in requests_of(claim):
        fewer = max(1, request.count - (found.need - found.agree))
        if fewer < request.count:
            candidates.append(request_count(location, request.count, fewer))
    cause = _constraint_cause(
        context, claim_name(claim), summary, [trace for _, trace in bound], nearest, candidates, notes
    )
    if definitions and not context.is_busy:
        return replace(cause, code="derived-values-differ", notes=(*definitions, *cause.notes))
    return cause


def _dropped(claim: ResourceClaim, index: int) -> CandidateChange:
    """A change without the constraint; a derived attribute must go with the last constraint that compares it."""
    spec = claim.spec.devices.constraints[index]
    if definitions_of(claim, _attribute(spec)):
        return without_derived_attribute(claim, _attribute(spec))
    return drop_constraint(claim_name(claim), index, spec, _attribute(spec))


def constraints_compete(context: NodeContext, claims: tuple[ResourceClaim, ...], subject: str) -> Cause | None:
    """The cause if claims fit individually, and together only without their constraints; otherwise None."""
    free = [with_devices(claim, constraints=()) for claim in claims]
    if free == list(claims) or not context.fits(*free):
        return None
    traces: list[Trace] = []
    candidates: list[CandidateChange] = []
    unmet: list[str] = []
    for claim in claims:
        traced: tuple[TracedRequest, ...] = tuple(
            (p, context.trace(query_of(p, spec))) for p, spec in requests_of(claim)
        )
        for index, spec in enumerate(claim.spec.devices.constraints):
            traced = _narrowed(context, spec, traced).traced
            candidates.append(_dropped(claim, index))
            unmet.append(_text(spec))
        traces.extend(trace for _, trace in traced)
    summary = (
        f"{subject} fit individually, but not together: no devices are left for {' and '.join(dict.fromkeys(unmet))}"
    )
    return _constraint_cause(context, claim_name(claims[0]), summary, traces, None, candidates, ())


def _constraint_cause(
    context: NodeContext,
    claim: str,
    summary: str,
    traces: list[Trace],
    nearest: NearestMiss | None,
    candidates: list[CandidateChange],
    notes: tuple[str, ...],
) -> Cause:
    """The cause: on an idle node the attribute values; on a busy node the claims that hold other suitable devices."""
    code = "constraint-values-differ"
    if context.is_busy:
        holders = all_holders(traces)
        code = "devices-in-use"
        summary = f"{summary}; other suitable devices are in use by {holder_names(holders)}"
        candidates = [*candidates, *free_claims(holders)]
    return Cause(code, summary, claim, "", tuple(traces), nearest, tuple(candidates), notes=notes)


def _unmet(context: NodeContext, claim: ResourceClaim) -> tuple[int, ...]:
    """The first constraint that is unmet by itself, else the first few that are unmet together."""
    specs = claim.spec.devices.constraints
    for index, spec in enumerate(specs):
        if not context.fits(with_devices(claim, constraints=(spec,))):
            return (index,)
    count = next(n for n in range(2, len(specs) + 1) if not context.fits(with_devices(claim, constraints=specs[:n])))
    return tuple(range(count))


def _attribute(spec: DeviceConstraint) -> str:
    return spec.match_attribute or spec.distinct_attribute or ""


def _text(spec: DeviceConstraint) -> str:
    return f"{'matchAttribute' if spec.match_attribute else 'distinctAttribute'} {_attribute(spec)}"


def _binds(spec: DeviceConstraint, location: RequestLocation) -> bool:
    rule = constraint(spec)
    return rule is not None and rule.applies(location.request, location.name)


def _narrowed(context: NodeContext, spec: DeviceConstraint, traced: Sequence[TracedRequest]) -> ConstraintResult:
    """The funnels extended by the constraint, for the requests to which it applies."""
    rule = constraint(spec)
    if rule is None:
        return ConstraintResult(tuple(traced), {}, (), (), 0, 0)
    bound = [trace for location, trace in traced if rule.applies(location.request, location.name)]
    arriving = {visible.id: visible for trace in bound for visible in trace.left}.values()
    values = _elements_of(context.scenario.features, rule.attribute, bound)
    groups: dict[Element, list[VisibleDevice]] = {}
    for visible in arriving:
        for value in values[visible.id] or ():
            groups.setdefault(value, []).append(visible)
    requests: dict[str, list[Trace]] = {}
    for location, trace in traced:
        if rule.applies(location.request, location.name):
            requests.setdefault(location.request, []).append(trace)
    need = sum(min(_count(trace) for trace in alternatives) for alternatives in requests.values())
    kept = _distinct(arriving, values) if rule.distinct else _matching(groups, requests)
    best = tuple(visible for visible in arriving if visible.id in kept)
    return ConstraintResult(
        tuple((location, _step(trace, spec, rule, location, kept, values)) for location, trace in traced),
        groups,
        tuple(visible for visible in arriving if not values[visible.id]),
        best,
        need,
        _served(requests.values(), kept),
    )


def _elements_of(features: Features, attribute: str, traces: list[Trace]) -> dict[DeviceID, Elements | None]:
    """The values of the devices of these requests, published or derived; of a device of several requests, all."""
    lists = features.enabled("DRAListTypeAttributes")
    values: dict[DeviceID, Elements | None] = {}
    for trace in traces:
        derived = _definition(trace, attribute, features)
        for visible in trace.left:
            found = elements(_attribute_of(visible, attribute, derived), lists)
            before = values.get(visible.id)
            values[visible.id] = found if before is None else tuple(sorted({*before, *(found or ())}))
    return values


def _definition(trace: Trace, attribute: str, features: Features) -> DerivedAttribute | None:
    """The compiled expression with which a request defines the attribute; None if it does not, or is invalid."""
    if not features.enabled("DRADerivedAttributes"):
        return None
    for derived in trace.query.derived:
        if derived.name == attribute:
            try:
                return compile_derived_attribute(derived.expression, features)
            except CompileError:
                return None
    return None


def _attribute_of(visible: VisibleDevice, attribute: str, derived: DerivedAttribute | None) -> DeviceAttribute | None:
    if derived is None:
        return find_attribute(visible.device, visible.driver, attribute)
    try:
        return derived.evaluate(DeviceInput(visible.driver, visible.device))
    except EvaluationError:
        return None


def _count(trace: Trace) -> int:
    return trace.query.count or len(trace.left)


def _served(requests: Iterable[list[Trace]], devices: frozenset[DeviceID]) -> int:
    """The maximum number of requested devices that these devices can provide."""
    found, shared = 0, False
    used: set[DeviceID] = set()
    for alternatives in requests:
        most = 0
        for trace in alternatives:
            matching = [visible for visible in trace.left if visible.id in devices]
            used.update(visible.id for visible in matching)
            several = any(visible.device.allow_multiple_allocations for visible in matching)
            shared = shared or several
            most = max(most, _count(trace) if several else min(_count(trace), len(matching)))
        found += most
    return found if shared else min(found, len(used))


def _matching(groups: dict[Element, list[VisibleDevice]], requests: dict[str, list[Trace]]) -> frozenset[DeviceID]:
    """The devices with the value that serves most of the requested devices; the first of equals."""
    sets = [frozenset(visible.id for visible in group) for group in groups.values()]
    return max(sets, key=lambda group: _served(requests.values(), group), default=frozenset())


def _distinct(arriving: Iterable[VisibleDevice], values: dict[DeviceID, Elements | None]) -> frozenset[DeviceID]:
    """The first device of each value."""
    taken: set[Element] = set()
    kept: set[DeviceID] = set()
    for visible in arriving:
        matching = values[visible.id]
        if matching and taken.isdisjoint(matching):
            taken.update(matching)
            kept.add(visible.id)
    return frozenset(kept)


def _step(
    trace: Trace,
    spec: DeviceConstraint,
    rule: Constraint,
    location: RequestLocation,
    kept: frozenset[DeviceID],
    values: dict[DeviceID, Elements | None],
) -> Trace:
    """The funnel with the constraint as the last step; for different values each request is counted by itself."""
    if not rule.applies(location.request, location.name):
        return trace
    matching = _distinct(trace.left, values) if rule.distinct else kept
    left = tuple(visible for visible in trace.left if visible.id in matching)
    return replace(trace, losses=(*trace.losses, Loss("constraint", _text(spec), trace.left, left)))


def _values_of(found: ConstraintResult) -> list[Element]:
    """The value that the nearest set shares, otherwise the first few values."""
    ids = {visible.id for visible in found.best}
    groups = [value for value, visible in found.groups.items() if ids <= {s.id for s in visible}]
    return groups[:1] or list(found.groups)[:4]


def _unpublished(claim: ResourceClaim, index: int, found: ConstraintResult, bound: list[TracedRequest]) -> Cause:
    """The cause if no device has the attribute, with similar names or all published ones."""
    name, spec = claim_name(claim), claim.spec.devices.constraints[index]
    attribute, field = _attribute(spec), "match_attribute" if spec.match_attribute else "distinct_attribute"
    known: dict[str, None] = {}
    for visible in found.lacking:
        for key in visible.device.attributes:
            known["/".join(qualified(key, visible.driver))] = None
    bare = attribute.rpartition("/")[2]
    by_bare = {full.rpartition("/")[2]: full for full in known}
    names = similar_names(attribute, known) if bare not in by_bare else (by_bare[bare],)
    same_domain = [by_bare[n] for n in similar_names(bare, by_bare)]
    offered = tuple(dict.fromkeys([*same_domain, *names]))[:3]
    hint = (
        f" Did you mean {' or '.join(value_text(n) for n in offered[:2])}?"
        if offered
        else f" Published: {', '.join(sorted(known))}"
    )
    summary = f'no matching device publishes "{attribute}", which the constraint compares.{hint}'
    path = f"spec.devices.constraints[{index}].{'matchAttribute' if spec.match_attribute else 'distinctAttribute'}"
    candidates = [
        CandidateChange(
            "name",
            f"use {new} in the constraint",
            edit_constraint(name, index, altered(spec, **{field: new})),
            f"ResourceClaim {name}",
            path,
            new,
            size=float(order),
        )
        for order, new in enumerate(offered)
    ]
    candidates.append(drop_constraint(name, index, spec, attribute))
    traces = tuple(trace for _, trace in bound)
    return Cause("constraint-attribute-unpublished", summary, name, "", traces, candidates=tuple(candidates))
