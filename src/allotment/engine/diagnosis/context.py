"""What a diagnosis works on: one world as one node sees it, and the cause that is found in it."""

from __future__ import annotations

from dataclasses import dataclass

from allotment.engine.diagnosis.funnel import Trace, Wanted, trace
from allotment.engine.diagnosis.holders import Holdings
from allotment.engine.diagnosis.published_names import Published
from allotment.engine.diagnosis.scenario import Asked, Candidate, Place, World, claim_name
from allotment.engine.diagnosis.trial_cache import Attempts
from allotment.engine.diagnosis.visible_devices import View
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import CANNOT_ALLOCATE, Miss, Refused
from allotment.model.resource import DeviceRequest, ExactDeviceRequest, ResourceClaim


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause with the changes worth trying; `refused` makes the value of it."""

    code: str
    summary: str
    claim: str = ""
    request: str = ""
    traces: tuple[Trace, ...] = ()
    nearest: Miss | None = None
    candidates: tuple[Candidate, ...] = ()
    alternatives: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()
    kubernetes: str = ""

    def refused(self, node: str) -> Refused:
        """The value, without changes (those are verified elsewhere)."""
        return Refused(
            code=self.code,
            summary=self.summary,
            node=node,
            claim=self.claim,
            request=self.request,
            funnels=tuple(t.value() for t in self.traces),
            nearest=self.nearest,
            notes=self.notes,
            alternatives=tuple(a.refused(node) for a in self.alternatives),
            kubernetes=self.kubernetes or CANNOT_ALLOCATE,
        )


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What stays the same while one node is examined."""

    published: Published
    attempts: Attempts


@dataclass(frozen=True, slots=True)
class Scene:
    """A world with the node's view of it and who holds what."""

    world: World
    inquiry: Inquiry
    view: View
    held: Holdings

    def fits(self, *claims: ResourceClaim) -> bool:
        """Whether other claims fit the node of this world."""
        return isinstance(self.inquiry.attempts(self.world.asking(*claims)), Allocated)

    def trace(self, wanted: Wanted) -> Trace:
        """The funnel of a request in this world."""
        world = self.world
        return trace(wanted, self.view, world.classes, self.held, world.features)

    @property
    def busy(self) -> bool:
        """Whether anything is allocated in this world."""
        return bool(self.world.allocated)


def places(claim: ResourceClaim) -> list[tuple[Place, Asked]]:
    """Every request and alternative of a claim."""
    name = claim_name(claim)
    found: list[tuple[Place, Asked]] = []
    for index, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{index}]"
        if request.exactly is not None:
            found.append((Place(name, request.name, path=f"{path}.exactly"), request.exactly))
        for number, sub in enumerate(request.first_available):
            found.append((Place(name, request.name, sub.name, f"{path}.firstAvailable[{number}]"), sub))
    return found


def wanted_of(place: Place, asked: Asked) -> Wanted:
    """A request or alternative in the form that both have."""
    return Wanted(
        claim=place.claim,
        name=place.name,
        device_class=asked.device_class_name,
        selectors=asked.selectors,
        count=0 if asked.allocation_mode == "All" else asked.count,
        admin=isinstance(asked, ExactDeviceRequest) and bool(asked.admin_access),
        tolerations=asked.tolerations,
        capacity=asked.capacity,
        path=f"claim {place.claim}, request {place.name}",
    )


def fewest(request: DeviceRequest) -> int:
    """The fewest devices that the request can be content with."""
    if request.exactly is not None:
        return request.exactly.count
    return min((s.count for s in request.first_available), default=0)
