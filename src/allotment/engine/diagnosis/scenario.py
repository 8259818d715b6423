"""``Scenario``: a node, its slices and claims as an immutable value, and edits of it that a diagnosis tries.

Only the engine decides whether a scenario fits, never a rule of the diagnosis, so reasons cannot contradict outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as altered

from allotment.engine.remedies import REMEDIES, Distance
from allotment.model.features import Features
from allotment.model.resource import (
    Device,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaintRule,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)

RequestSpec = ExactDeviceRequest | DeviceSubRequest


@dataclass(frozen=True, slots=True)
class Scenario:
    """One node and everything that affects whether ``claims`` fit it."""

    features: Features
    node: str
    labels: Mapping[str, str]
    slices: tuple[ResourceSlice, ...]
    classes: Mapping[str, DeviceClass]
    allocated: tuple[ResourceClaim, ...]
    claims: tuple[ResourceClaim, ...]
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    declared_features: frozenset[str] = frozenset()
    """``status.declaredFeatures`` of the node."""

    def idle(self) -> Scenario:
        """The scenario without allocated claims."""
        return replace(self, allocated=())

    def with_claims(self, *claims: ResourceClaim) -> Scenario:
        """The scenario with other claims to allocate."""
        return replace(self, claims=claims)

    def without_claims(self, names: frozenset[str]) -> Scenario:
        """The scenario after the named claims were deallocated."""
        return replace(self, allocated=tuple(c for c in self.allocated if claim_name(c) not in names))


@dataclass(frozen=True, slots=True)
class RequestLocation:
    """The location of an exact request or alternative, by names, which remain valid after edits."""

    claim: str
    request: str
    alternative: str = ""
    path: str = ""
    """The path in the original claim: ``spec.devices.requests[0].exactly``."""

    @property
    def object(self) -> str:
        """Kind and name of the claim."""
        return f"ResourceClaim {self.claim}"

    @property
    def name(self) -> str:
        """``main`` or ``main/sub``, as in allocation results."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request


def without_groups(scenario: Scenario) -> Scenario:
    """The scenario with devices that have no compatibility groups."""

    def device(value: Device) -> Device:
        uses = tuple(altered(use, compatibility_groups=()) for use in value.consumes_counters)
        return altered(value, consumes_counters=uses) if uses else value

    slices = tuple(
        altered(s, spec=altered(s.spec, devices=tuple(map(device, s.spec.devices)))) if s.spec.devices else s
        for s in scenario.slices
    )
    return replace(scenario, slices=slices)


Edit = Callable[[Scenario], Scenario]


def claim_name(claim: ResourceClaim) -> str:
    """``namespace/name``, or the bare name without a namespace."""
    meta = claim.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def with_devices(claim: ResourceClaim, **changes: object) -> ResourceClaim:
    """The claim with some of ``requests``, ``constraints``, ``config`` replaced."""
    devices = altered(claim.spec.devices, **changes)
    return altered(claim, spec=altered(claim.spec, devices=devices))


def only_request(claim: ResourceClaim, request: DeviceRequest) -> ResourceClaim:
    """The claim reduced to one request, without constraints."""
    return with_devices(claim, requests=(request,), constraints=(), config=())


def only_alternative(request: DeviceRequest, alternative: str) -> DeviceRequest:
    """A firstAvailable request with a single alternative."""
    return altered(request, first_available=tuple(s for s in request.first_available if s.name == alternative))


def edit_claim(name: str, change: Callable[[ResourceClaim], ResourceClaim]) -> Edit:
    """An edit that changes one claim."""
    return lambda scenario: replace(
        scenario, claims=tuple(change(c) if claim_name(c) == name else c for c in scenario.claims)
    )


def edit_request(location: RequestLocation, change: Callable[[RequestSpec], RequestSpec]) -> Edit:
    """An edit that changes one exact request or alternative."""

    def edited(request: DeviceRequest) -> DeviceRequest:
        if request.name != location.request:
            return request
        if request.exactly is not None:
            return altered(request, exactly=change(request.exactly))
        subs = tuple(change(s) if s.name == location.alternative else s for s in request.first_available)
        return altered(request, first_available=subs)

    def all_of(claim: ResourceClaim) -> ResourceClaim:
        return with_devices(claim, requests=tuple(edited(r) for r in claim.spec.devices.requests))

    return edit_claim(location.claim, all_of)


def edit_selector(location: RequestLocation, index: int, expression: str) -> Edit:
    """An edit that replaces a selector of a request; an empty expression removes it."""
    return edit_request(location, lambda spec: altered(spec, selectors=_put(spec.selectors, index, expression)))


def edit_class(name: str, index: int, expression: str) -> Edit:
    """An edit that replaces a selector of a class; an empty expression removes it."""

    def change(scenario: Scenario) -> Scenario:
        class_ = scenario.classes[name]
        spec = altered(class_.spec, selectors=_put(class_.spec.selectors, index, expression))
        return replace(scenario, classes={**scenario.classes, name: altered(class_, spec=spec)})

    return change


def _put(selectors: tuple[DeviceSelector, ...], index: int, expression: str) -> tuple[DeviceSelector, ...]:
    if index >= len(selectors):  # the edit was found after another one, and is tried without it
        return selectors
    old = selectors[index]
    if not expression or old.cel is None:
        return selectors[:index] + selectors[index + 1 :]
    return (*selectors[:index], altered(old, cel=altered(old.cel, expression=expression)), *selectors[index + 1 :])


def edit_constraint(claim: str, index: int, constraint: DeviceConstraint | None) -> Edit:
    """An edit that replaces a constraint of a claim, or removes it."""

    def change(value: ResourceClaim) -> ResourceClaim:
        old = value.spec.devices.constraints
        middle = (constraint,) if constraint is not None else ()
        return with_devices(value, constraints=old[:index] + middle + old[index + 1 :])

    return edit_claim(claim, change)


@dataclass(frozen=True, slots=True)
class CandidateChange:
    """A change to try, nearest first; ``object``, ``path`` and ``becomes`` are as in `SuggestedChange`.

    ``size``: how far the new value is from the old one, comparable within a class of loss. ``devices``: the number of
    free devices with the new value, if it selects devices.
    """

    remedy: str
    text: str
    edit: Edit
    object: str = ""
    path: str = ""
    becomes: Any = None
    size: float = 0.0
    devices: int = 0

    @property
    def distance(self) -> Distance:
        """The distance from what was intended."""
        return Distance(REMEDIES[self.remedy].loss, 1, self.size)
