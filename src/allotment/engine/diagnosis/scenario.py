"""The question that a diagnosis asks again and again: do these claims fit this node, in this or a changed world?

A world is a value; an edit returns another. Whether it fits is always answered by the engine itself, never by a rule
of the diagnosis, so reasons cannot disagree with outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec.structs import replace as altered

from allotment.model.features import Features
from allotment.model.resource import (
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

Asked = ExactDeviceRequest | DeviceSubRequest


@dataclass(frozen=True, slots=True)
class World:
    """One node and everything that decides whether ``claims`` fit it."""

    features: Features
    node: str
    labels: Mapping[str, str]
    slices: tuple[ResourceSlice, ...]
    classes: Mapping[str, DeviceClass]
    allocated: tuple[ResourceClaim, ...]
    claims: tuple[ResourceClaim, ...]
    taint_rules: tuple[DeviceTaintRule, ...] = ()

    def idle(self) -> World:
        """The same with nothing allocated."""
        return replace(self, allocated=())

    def asking(self, *claims: ResourceClaim) -> World:
        """The same for other claims."""
        return replace(self, claims=claims)

    def without_claim(self, names: frozenset[str]) -> World:
        """The same after the allocations of the named claims ended."""
        return replace(self, allocated=tuple(c for c in self.allocated if claim_name(c) not in names))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request, or an alternative of one, stands: by names, which survive edits."""

    claim: str
    request: str
    alternative: str = ""
    path: str = ""
    """In the claim as it was given: ``spec.devices.requests[0].exactly``."""

    @property
    def object(self) -> str:
        """The claim with its kind."""
        return f"ResourceClaim {self.claim}"

    @property
    def name(self) -> str:
        """``main`` or ``main/sub``, as in allocation results."""
        return f"{self.request}/{self.alternative}" if self.alternative else self.request


Edit = Callable[[World], World]


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
    """An edit of one claim."""
    return lambda world: replace(world, claims=tuple(change(c) if claim_name(c) == name else c for c in world.claims))


def edit_request(place: Place, change: Callable[[Asked], Asked]) -> Edit:
    """An edit of one request or alternative."""

    def one(request: DeviceRequest) -> DeviceRequest:
        if request.name != place.request:
            return request
        if request.exactly is not None:
            return altered(request, exactly=change(request.exactly))
        subs = tuple(change(s) if s.name == place.alternative else s for s in request.first_available)
        return altered(request, first_available=subs)

    def all_of(claim: ResourceClaim) -> ResourceClaim:
        return with_devices(claim, requests=tuple(one(r) for r in claim.spec.devices.requests))

    return edit_claim(place.claim, all_of)


def edit_selector(place: Place, index: int, expression: str) -> Edit:
    """Replace a selector of a request; an empty expression removes it."""
    return edit_request(place, lambda asked: altered(asked, selectors=_put(asked.selectors, index, expression)))


def edit_class(name: str, index: int, expression: str) -> Edit:
    """Replace a selector of a class; an empty expression removes it."""

    def change(world: World) -> World:
        class_ = world.classes[name]
        spec = altered(class_.spec, selectors=_put(class_.spec.selectors, index, expression))
        return replace(world, classes={**world.classes, name: altered(class_, spec=spec)})

    return change


def _put(selectors: tuple[DeviceSelector, ...], index: int, expression: str) -> tuple[DeviceSelector, ...]:
    old = selectors[index]
    if not expression or old.cel is None:
        return selectors[:index] + selectors[index + 1 :]
    return (*selectors[:index], altered(old, cel=altered(old.cel, expression=expression)), *selectors[index + 1 :])


def edit_constraint(claim: str, index: int, constraint: DeviceConstraint | None) -> Edit:
    """Replace a constraint of a claim, or remove it."""

    def change(value: ResourceClaim) -> ResourceClaim:
        old = value.spec.devices.constraints
        middle = (constraint,) if constraint is not None else ()
        return with_devices(value, constraints=old[:index] + middle + old[index + 1 :])

    return edit_claim(claim, change)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change worth trying. ``remedy`` gives it its turn; object, path and ``becomes`` say it exactly."""

    remedy: str
    text: str
    edit: Edit
    object: str = ""
    path: str = ""
    becomes: Any = None
