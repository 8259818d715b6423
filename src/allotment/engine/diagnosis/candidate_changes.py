"""Candidate changes of counts, capacities, classes, constraints and other claims (not of selector conditions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from msgspec.structs import replace as altered

from allotment.engine.cluster.identity import PoolID
from allotment.engine.diagnosis.context import NodeContext, requests_of
from allotment.engine.diagnosis.holders import ClaimHolder
from allotment.engine.diagnosis.published_names import similar_names, similarity
from allotment.engine.diagnosis.scenario import (
    CandidateChange,
    RequestLocation,
    Scenario,
    claim_name,
    edit_constraint,
    edit_request,
    with_devices,
)
from allotment.engine.diagnosis.stated_memory import is_memory
from allotment.engine.diagnosis.value_distance import amount_distance
from allotment.engine.diagnosis.wording import freeing_text
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CapacityRequirements,
    DeviceConstraint,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from allotment.phrases import counted


def request_count(location: RequestLocation, old_count: int, count: int) -> CandidateChange:
    """A change of the number of requested devices."""
    return CandidateChange(
        "less",
        f"request {counted(count, 'device')} instead of {old_count}",
        edit_request(location, lambda old: altered(old, count=count)),
        location.object,
        f"{location.path}.count",
        count,
        size=float(old_count - count),
    )


def fewer_devices(context: NodeContext, claim: ResourceClaim, most: int) -> tuple[CandidateChange, ...]:
    """Smaller counts for a claim that requests too many devices."""
    found: list[CandidateChange] = []
    for location, spec in requests_of(claim):
        if spec.count > 1:
            view = len(context.view.devices)
            found.extend(
                request_count(location, spec.count, count)
                for count in sorted({min(most, spec.count - 1, view), min(spec.count - 1, view // 2), 1}, reverse=True)
                if count > 0
            )
    return tuple(found)


def complete_pool(pool: PoolID, *, surplus: bool) -> CandidateChange:
    """A change of the driver: the pool announces as many slices as exist now.

    ``surplus``: more slices exist than announced, so the driver must correct the number or delete leftover slices.
    """

    def edit(scenario: Scenario) -> Scenario:
        own = [s for s in scenario.slices if (s.spec.driver, s.spec.pool.name) == pool]
        newest = max((s.spec.pool.generation for s in own), default=0)
        count = sum(1 for s in own if s.spec.pool.generation == newest)
        slices = tuple(
            altered(s, spec=altered(s.spec, pool=altered(s.spec.pool, resource_slice_count=count))) if s in own else s
            for s in scenario.slices
        )
        return replace(scenario, slices=slices)

    if surplus:
        text = (
            f"fix the driver so that the resourceSliceCount of pool {pool} matches the number of published slices; "
            "their devices are sufficient"
        )
    else:
        text = (
            f"wait until the driver has published all slices of pool {pool}; the devices published so far are "
            "sufficient"
        )
    return CandidateChange("driver", text, edit)


def other_classes(location: RequestLocation, name: str, classes: Mapping[str, str]) -> list[CandidateChange]:
    """Changes to other ``classes``, similar names first; a similar name for an unknown class is a spelling correction.

    ``classes``: the driver of each class, empty if it selects devices of several drivers.
    """
    similar = similar_names(name, classes)
    others = sorted((c for c in classes if c != name), key=lambda c: (-similarity(name, c), c))
    return [
        CandidateChange(
            "name" if other in similar and name not in classes else _of_other_class(classes, name, other),
            f"use class {other}",
            edit_request(location, partial(altered, device_class_name=other)),
            location.object,
            f"{location.path}.deviceClassName",
            other,
            size=1.0 - similarity(name, other),
        )
        for other in others[:4]
    ]


def _of_other_class(classes: Mapping[str, str], name: str, other: str) -> str:
    """The remedy that uses another class."""
    drivers = {classes.get(name, ""), classes[other]} - {""}
    return "other-driver" if len(drivers) > 1 else "other-class"


def capacity_edit(
    location: RequestLocation, requests: dict[str, Quantity], remedy: str, text: str, size: float = 0.0
) -> CandidateChange:
    """A change of the amounts in ``capacity.requests``; ``size`` as in `CandidateChange`."""
    return CandidateChange(
        remedy,
        text,
        edit_request(location, lambda old: altered(old, capacity=CapacityRequirements(requests=requests))),
        location.object,
        f"{location.path}.capacity",
        {"requests": {name: str(amount) for name, amount in requests.items()}},
        size,
    )


def smaller_amount(
    location: RequestLocation, requests: dict[str, Quantity], name: str, amount: Quantity
) -> CandidateChange:
    """A change to a smaller amount of one capacity; less memory than requested loses more than less of another one."""
    return capacity_edit(
        location,
        {**requests, name: amount},
        "smaller-share" if is_memory(name) else "less",
        f"request {amount} of {name}",
        amount_distance(requests[name].nano, amount.nano) if name in requests else 0.0,
    )


def free_claims(holders: list[ClaimHolder]) -> list[CandidateChange]:
    """Changes that release one claim, or the first few claims; those that the reader may not see are not named."""
    found = [
        CandidateChange(
            "wait",
            freeing_text([holder]),
            partial(Scenario.without_claims, names=frozenset({holder.claim})),
            "" if holder.is_hidden else f"ResourceClaim {holder.claim}",
            "" if holder.is_hidden else "status.allocation",
            size=1.0,
        )
        for holder in holders[:4]
    ]
    for count in range(2, min(len(holders), 8) + 1):
        released = holders[:count]
        without = partial(Scenario.without_claims, names=frozenset(holder.claim for holder in released))
        found.append(CandidateChange("wait", freeing_text(released), without, size=float(count)))
    return found


def exact_count(location: RequestLocation, count: int) -> CandidateChange:
    """A change from all devices to a number of devices."""
    return CandidateChange(
        "less",
        f"request {counted(count, 'device')} instead of all",
        edit_request(location, lambda old: altered(old, allocation_mode="ExactCount", count=count)),
        location.object,
        location.path,
        {"allocationMode": "ExactCount", "count": count},
    )


def _without_claim(scenario: Scenario, name: str) -> Scenario:
    return replace(scenario, claims=tuple(c for c in scenario.claims if claim_name(c) != name))


def drop_claim(claims: tuple[ResourceClaim, ...]) -> list[CandidateChange]:
    """Changes that remove one of several claims of the pod."""
    if len(claims) > 1:
        return [
            CandidateChange(
                "leave-out", f"remove claim {claim_name(claim)}", partial(_without_claim, name=claim_name(claim))
            )
            for claim in reversed(claims)
        ]
    return []


def without_derived_attribute(claim: ResourceClaim, attribute: str) -> CandidateChange:
    """A change that removes a derived attribute and the constraints that compare it, which cannot be kept without."""
    name = claim_name(claim)

    def edit(scenario: Scenario) -> Scenario:
        return replace(
            scenario,
            claims=tuple(_without_attribute(c, attribute) if claim_name(c) == name else c for c in scenario.claims),
        )

    return CandidateChange("constraint", f"remove the derived attribute {attribute} and its constraints", edit)


def _without_attribute(claim: ResourceClaim, attribute: str) -> ResourceClaim:
    devices = claim.spec.devices
    requests = tuple(
        altered(
            request,
            exactly=_not_deriving(request.exactly, attribute) if request.exactly is not None else None,
            first_available=tuple(_not_deriving(sub, attribute) for sub in request.first_available),
        )
        for request in devices.requests
    )
    constraints = tuple(c for c in devices.constraints if attribute not in (c.match_attribute, c.distinct_attribute))
    return with_devices(claim, requests=requests, constraints=constraints)


_Request = TypeVar("_Request", ExactDeviceRequest, DeviceSubRequest)


def _not_deriving(request: _Request, attribute: str) -> _Request:
    kept = tuple(derived for derived in request.derived_attributes if derived.name != attribute)
    return altered(request, derived_attributes=kept)


def drop_constraint(claim: str, index: int, constraint: DeviceConstraint, attribute: str) -> CandidateChange:
    """A change that removes one of the claim's constraints."""
    kind = "matchAttribute" if constraint.match_attribute else "distinctAttribute"
    return CandidateChange(
        "constraint",
        f"drop the constraint {kind} {attribute}",
        edit_constraint(claim, index, None),
        f"ResourceClaim {claim}",
        f"spec.devices.constraints[{index}]",
    )
