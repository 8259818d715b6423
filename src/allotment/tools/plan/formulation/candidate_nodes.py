"""Places that pods may get, nodes that are there and machines that can be had, and whether one pod may go there at all.

What Kubernetes' filters say of a place alone (taints, selectors, ports, room) is asked of the real filters, on a node
that nobody else is on; what pods that are there say of it (affinity between pods) as well. What comes of several pods
together is asked later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from allotment.cel import CompileError
from allotment.engine.claims.requests import CompiledRequest, Subrequest
from allotment.engine.search.verdict import NoFit, Solution, Undecided
from allotment.fleet.catalog.instance_type import Template
from allotment.model.resource import ResourceClaim
from allotment.node_fit.nodes import Machine
from allotment.node_fit.pod_requirements import admits
from allotment.tools.plan.offerings.hypothetical_nodes import DeviceRoom
from allotment.tools.plan.offerings.offers import Offer


@dataclass(slots=True)
class Place:
    """A node, or a sort of machine that can be had (``offer``), with its GPUs in ``mode``."""

    name: str
    machine: Machine
    room: DeviceRoom
    offer: Offer | None = None
    mode: str = ""
    template: Template | None = None
    zone: str = ""
    refused: dict[int, str] = field(default_factory=dict)
    """Why a kind may not come, because of pods that are there, by number of kind."""

    @property
    def existing(self) -> bool:
        """Whether the node is there already."""
        return self.offer is None

    def lacking(self, by_devices: frozenset[str]) -> frozenset[str]:
        """Which of these extended resources the node does not have itself, so that devices must serve them."""
        return frozenset(name for name in by_devices if self.machine.allocatable.get(name, 0) <= 0)


class Alone(NamedTuple):
    """Whether one item alone may have a place. ``code`` is empty if so; else which test it fails, and in words.

    Codes: zone, claim, neighbours, those of Kubernetes' filters (``unschedulable taint affinity ports resources``),
    unpublished, run-time-only, undecided, devices. ``shape``: whose claims found no devices.
    """

    code: str = ""
    text: str = ""
    shape: int = -1

    @property
    def fits(self) -> bool:
        """Whether nothing is in the way."""
        return not self.code


FITS: Final = Alone()


def unknowable(room: DeviceRoom, template: Template | None, shape: int) -> str:
    """What a shape asks of devices that nobody can know before the machine runs; empty if nothing."""
    if template is None or not template.runtime_only:
        return ""
    compiled = room.steps.work(room.stage, shape).shape
    for claim in compiled.claims:
        for request in claim.requests:
            found = [_reads_symbol(ask, template.runtime_only) for ask in request.subrequests]
            if found and all(found):
                return f"request {request.name} selects by {found[0]}, which is known only when the machine runs"
        for number in sorted(
            {number for request in claim.requests for ask in request.subrequests for number in ask.constraints}
        ):
            constraint = compiled.constraints[number]
            unknown = constraint.distinct and _is_among(constraint.attribute, template.unmeasured)
            # A device alone differs from no other.
            if unknown and sum(_most(request, number) for request in claim.requests) > 1:
                return f"distinctAttribute {constraint.attribute} is known only when the machine runs"
    return ""


def _most(request: CompiledRequest, constraint: int) -> int:
    """How many devices of a request a constraint is about, at most; two stand for any number."""
    return max(
        (2 if ask.all else ask.device_count for ask in request.subrequests if constraint in ask.constraints), default=0
    )


def matches_unknown(room: DeviceRoom, template: Template | None, shape: int) -> str:
    """The attribute of a ``matchAttribute`` whose equality nobody knows on this hardware; empty if there is none."""
    if template is None:
        return ""
    compiled = room.steps.work(room.stage, shape).shape
    bound = {number for ask in compiled.subrequests for number in ask.constraints}
    for number in sorted(bound):
        constraint = compiled.constraints[number]
        if not constraint.distinct and _is_among(constraint.attribute, template.unmeasured):
            return constraint.attribute
    return ""


def _reads_symbol(ask: Subrequest, names: frozenset[str]) -> str:
    for selector in ask.selectors:
        if isinstance(selector.compiled, CompileError):
            continue
        reads = selector.compiled.device_paths
        if reads is None:
            return "everything a device says of itself"
        for read in reads:
            if read[0] != "attributes":
                continue
            if len(read) < 3:
                return f"all of {'.'.join(read)}"
            if read[2] in names or f"{read[1]}/{read[2]}" in names:
                return f"attribute {read[2]}"
    return ""


def _is_among(attribute: str, names: frozenset[str]) -> bool:
    return attribute in names or attribute.partition("/")[2] in names


def devices(place: Place, shapes: tuple[int, ...]) -> Alone:
    """Whether the claims of an item find devices, one pod after the other."""
    room = place.room
    for shape in shapes:
        told = unknowable(room, place.template, shape)
        if told:
            return Alone("run-time-only", told, shape)
    state = room.initial
    for shape in shapes:
        verdict = room.verdict(shape, state)
        if isinstance(verdict, Undecided):
            return Alone("undecided", f"the search for devices was given up after {verdict.steps} steps", shape)
        if not isinstance(verdict, Solution):
            unknown = matches_unknown(room, place.template, shape)
            if unknown and isinstance(verdict, NoFit):
                return Alone("run-time-only", f"matchAttribute {unknown} is known only when the machine runs", shape)
            return Alone("devices", "no devices there suit its claims", shape)
        after = room.after(state, shape)
        assert after is not None
        state = after
    return FITS


def reaches(claim: ResourceClaim, place: Place) -> bool:
    """Whether an allocated claim's devices can be used at a place."""
    allocation = claim.status.allocation
    return (
        allocation is None or allocation.node_selector is None or admits(allocation.node_selector, place.machine.facts)
    )
