"""Causes of refusal that end the attempt on all nodes: a derived attribute that fails, a capacity that does not fit
int64."""

from __future__ import annotations

import re
from collections.abc import Iterator

from allotment.engine.diagnosis.candidate_changes import capacity_edit, without_derived_attribute
from allotment.engine.diagnosis.context import Cause, NodeContext, definitions_of, requests_of
from allotment.engine.diagnosis.scenario import CandidateChange, claim_name
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.engine.outcome import Aborted
from allotment.engine.refusal import NearestMiss
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceClaim

_MILLI = 10**6


def derived_attribute_fails(context: NodeContext, claim: ResourceClaim, outcome: Aborted) -> Cause:
    """The cause if the expression of a derived attribute does not compile, or fails on a device."""
    derived = {attribute.name: None for _, spec in requests_of(claim) for attribute in spec.derived_attributes}
    failing = [name for name in derived if f"derived attribute {name} " in outcome.text]
    first, *rest = outcome.text.splitlines()
    return Cause(
        "derived-attribute-fails",
        first,
        claim_name(claim),
        outcome.request or "",
        nearest=_missing_attribute(context, outcome),
        candidates=tuple(without_derived_attribute(claim, name) for name in failing),
        notes=(*(text for name in failing for text in definitions_of(claim, name)), *rest),
        kubernetes=outcome.text,
    )


def _failed_device(context: NodeContext, outcome: Aborted) -> VisibleDevice | None:
    return next((visible for visible in context.view.devices if visible.id == outcome.device), None)


def _missing_attribute(context: NodeContext, outcome: Aborted) -> NearestMiss | None:
    """The attributes of the device, if the expression reads one that it lacks."""
    visible = _failed_device(context, outcome)
    missing = re.search(r"no such key: (\S+)$", outcome.text)
    if visible is None or missing is None:
        return None
    published = ", ".join(sorted(visible.device.attributes)) or "none"
    return NearestMiss(visible.name, "attributes", published, missing[1], visible.kind)


def _range_of(context: NodeContext, claim: ResourceClaim, outcome: Aborted) -> NearestMiss | None:
    """The range of the policy that cannot represent the requested amount."""
    visible = _failed_device(context, outcome)
    named = re.search(r'capacity "([^"]+)"', outcome.text)
    capacity = visible.device.capacity.get(named[1]) if visible is not None and named is not None else None
    requests = next(
        (s.capacity.requests for p, s in requests_of(claim) if p.name == outcome.request and s.capacity is not None), {}
    )
    if visible is None or named is None or capacity is None or named[1] not in requests:
        return None
    range_ = capacity.request_policy.valid_range if capacity.request_policy is not None else None
    if range_ is None or range_.step is None:
        return None
    steps = f"{range_.min} and more in steps of {range_.step}"
    return NearestMiss(visible.name, named[1], steps, str(requests[named[1]]), visible.kind)


def capacity_not_representable(context: NodeContext, claim: ResourceClaim, outcome: Aborted) -> Cause:
    """The cause of an amount that is negative, or that int64 cannot represent in the unit of the policy's range."""
    name = claim_name(claim)
    candidates = tuple(_in_thousandths(claim))
    request = outcome.request or ""
    code = "capacity-not-representable"
    nearest = _range_of(context, claim, outcome)
    return Cause(code, outcome.text, name, request, nearest=nearest, candidates=candidates, kubernetes=outcome.text)


def _in_thousandths(claim: ResourceClaim) -> Iterator[CandidateChange]:
    """Changes that round the requested amounts up to thousandths."""
    for location, spec in requests_of(claim):
        requests = spec.capacity.requests if spec.capacity is not None else {}
        rounded = {name: _rounded(amount) for name, amount in requests.items()}
        changed = [f"{amount} of {name}" for name, amount in rounded.items() if amount != requests[name]]
        if changed:
            text = f"request {' and '.join(changed)}"
            yield capacity_edit(location, rounded, "round", text)


def _rounded(amount: Quantity) -> Quantity:
    if amount.nano % _MILLI == 0 or amount.nano < 0:
        return amount
    return Quantity.parse(f"{-(-amount.nano // _MILLI)}m")
