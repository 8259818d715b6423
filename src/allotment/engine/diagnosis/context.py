"""The data of a diagnosis on one node: the scenario, the visible devices, their holders, and the resulting cause."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.diagnosis.funnel import DeviceQuery, Trace, trace_request
from allotment.engine.diagnosis.holders import HeldDevices
from allotment.engine.diagnosis.published_names import PublishedNames
from allotment.engine.diagnosis.reader import EVERYTHING, Reader
from allotment.engine.diagnosis.scenario import (
    CandidateChange,
    RequestLocation,
    RequestSpec,
    Scenario,
    claim_name,
    without_groups,
)
from allotment.engine.diagnosis.trial_cache import TrialCache
from allotment.engine.diagnosis.visible_devices import VisibleDevices
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import CANNOT_ALLOCATE, AllocationRefusal, NearestMiss
from allotment.model.resource import DeviceRequest, ExactDeviceRequest, ResourceClaim


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause with its candidate changes; `refused` converts it to the public value."""

    code: str
    summary: str
    claim: str = ""
    request: str = ""
    traces: tuple[Trace, ...] = ()
    nearest: NearestMiss | None = None
    candidates: tuple[CandidateChange, ...] = ()
    alternatives: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()
    kubernetes: str = ""

    def refused(self, node: str) -> AllocationRefusal:
        """The public value without changes, which `remedy_search` verifies."""
        return AllocationRefusal(
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
class SharedContext:
    """Data that stays the same during the diagnosis of one node. ``in_use``: devices that claims hold exclusively."""

    published: PublishedNames
    trials: TrialCache
    reader: Reader = EVERYTHING
    in_use: Container[DeviceID] = ()


@dataclass(frozen=True, slots=True)
class NodeContext:
    """A scenario with the devices that the node sees and their holders."""

    scenario: Scenario
    shared: SharedContext
    view: VisibleDevices
    held: HeldDevices

    def fits(self, *claims: ResourceClaim) -> bool:
        """Whether these claims fit on the node instead of the scenario's claims."""
        return isinstance(self.shared.trials(self.scenario.with_claims(*claims)), Allocated)

    def trace(self, wanted: DeviceQuery) -> Trace:
        """The funnel of a request in this scenario."""
        scenario = self.scenario
        return trace_request(wanted, self.view, scenario.classes, self.held, scenario.features)

    def fits_without_groups(self, *claims: ResourceClaim) -> bool:
        """Whether the claims would fit if no device had compatibility groups; without ``claims`` those of the node."""
        scenario = self.scenario if not claims else self.scenario.with_claims(*claims)
        return isinstance(self.shared.trials(without_groups(scenario)), Allocated)

    @property
    def is_busy(self) -> bool:
        """Whether the scenario has allocated claims."""
        return bool(self.scenario.allocated)


def requests_of(claim: ResourceClaim) -> list[tuple[RequestLocation, RequestSpec]]:
    """Every exact request and alternative of a claim, with its location."""
    name = claim_name(claim)
    found: list[tuple[RequestLocation, RequestSpec]] = []
    for index, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{index}]"
        if request.exactly is not None:
            found.append((RequestLocation(name, request.name, path=f"{path}.exactly"), request.exactly))
        for number, sub in enumerate(request.first_available):
            found.append((RequestLocation(name, request.name, sub.name, f"{path}.firstAvailable[{number}]"), sub))
    return found


def definitions_of(claim: ResourceClaim, attribute: str) -> tuple[str, ...]:
    """The definitions of a derived attribute in the claim's requests, one line each; empty if there are none."""
    return tuple(
        f"request {location.name} defines {attribute}: {derived.expression}"
        for location, spec in requests_of(claim)
        for derived in spec.derived_attributes
        if derived.name == attribute
    )


def query_of(location: RequestLocation, spec: RequestSpec) -> DeviceQuery:
    """The device query of an exact request or alternative."""
    return DeviceQuery(
        claim=location.claim,
        name=location.name,
        device_class=spec.device_class_name,
        selectors=spec.selectors,
        count=0 if spec.allocation_mode == "All" else spec.count,
        admin=isinstance(spec, ExactDeviceRequest) and bool(spec.admin_access),
        tolerations=spec.tolerations,
        capacity=spec.capacity,
        path=f"claim {location.claim}, request {location.name}",
        derived=spec.derived_attributes,
    )


def fewest(request: DeviceRequest) -> int:
    """The smallest number of devices that satisfies the request."""
    if request.exactly is not None:
        return request.exactly.count
    return min((s.count for s in request.first_available), default=0)
