"""Checks whether a single item of pending pods can run on a candidate: an existing node or an offered machine type.

The scheduler's own filters decide on taints, selectors, ports and resources of the otherwise empty node, and on
affinity to running pods. Constraints between several pending pods are checked later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from allotment.cel import CompileError
from allotment.engine.claims.requests import CompiledRequest, Subrequest
from allotment.engine.search.verdict import NoFit, Solution, Undecided
from allotment.fleet.catalog.instance_type import Template
from allotment.model.resource import ResourceClaim
from allotment.node_fit.filters import FILTERS
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import selector_matches
from allotment.planning.offerings.hypothetical_nodes import NodeDevices
from allotment.planning.offerings.offers import InstanceOffer
from allotment.planning.pending_pods.demand import PendingPod, selected_labels, untolerated
from allotment.planning.pending_pods.grouping import Item

ARCH_LABEL: Final = "kubernetes.io/arch"
#: The architecture of images, unless their pods select another one.
_DEFAULT_ARCH: Final = "amd64"


@dataclass(slots=True)
class CandidateNode:
    """An existing node, or an offered machine type (``offer``) with its GPUs in ``mode``."""

    name: str
    machine: CachedNode
    devices: NodeDevices
    offer: InstanceOffer | None = None
    mode: str = ""
    template: Template | None = None
    zone: str = ""
    rejected_kinds: dict[int, str] = field(default_factory=dict)
    """By kind number, the reason why running pods exclude the kind."""

    @property
    def is_existing(self) -> bool:
        """Whether the node exists."""
        return self.offer is None

    def missing_resources(self, device_resources: frozenset[str]) -> frozenset[str]:
        """The extended resources that the node does not publish itself, so that claims must provide them."""
        return frozenset(name for name in device_resources if self.machine.allocatable.get(name, 0) <= 0)


class ItemFit(NamedTuple):
    """Whether a single item fits a candidate: ``code`` is empty if so, else it names the failed check.

    Codes: zone, claim, neighbours, arch, those of the scheduler's filters (``unschedulable taint affinity ports
    resources``), unpublished, run-time-only, undecided, devices. ``shape``: the claims that found no devices.
    """

    code: str = ""
    text: str = ""
    shape: int = -1

    @property
    def fits(self) -> bool:
        """Whether no check failed."""
        return not self.code


FITS: Final = ItemFit()


def run_time_dependency(devices: NodeDevices, template: Template | None, shape: int) -> str:
    """The part of a shape that depends on attributes known only when the machine runs, as text; empty if none."""
    if template is None or not template.runtime_only:
        return ""
    compiled = devices.claim_shapes.shape_cache(devices.cluster, shape).shape
    for claim in compiled.claims:
        for request in claim.requests:
            result = [_run_time_attribute(subrequest, template.runtime_only) for subrequest in request.subrequests]
            if result and all(result):
                return (
                    f"request {request.name} selects by {result[0]}, which is known only after the machine has started"
                )
        for number in sorted(
            {
                number
                for request in claim.requests
                for subrequest in request.subrequests
                for number in subrequest.constraints
            }
        ):
            constraint = compiled.constraints[number]
            unknown = constraint.distinct and _is_among(constraint.attribute, template.unmeasured)
            # A single device is always distinct.
            if unknown and sum(_max_devices(request, number) for request in claim.requests) > 1:
                return (
                    f"the values of distinctAttribute {constraint.attribute} are known only after the machine has "
                    "started"
                )
    return ""


def _max_devices(request: CompiledRequest, constraint: int) -> int:
    """The maximum number of a request's devices that a constraint applies to; 2 stands for any number."""
    return max(
        (
            2 if subrequest.all else subrequest.device_count
            for subrequest in request.subrequests
            if constraint in subrequest.constraints
        ),
        default=0,
    )


def unmeasured_match(devices: NodeDevices, template: Template | None, shape: int) -> str:
    """The attribute of a ``matchAttribute`` constraint whose values are unmeasured on this hardware; empty if none."""
    if template is None:
        return ""
    compiled = devices.claim_shapes.shape_cache(devices.cluster, shape).shape
    bound = {number for subrequest in compiled.subrequests for number in subrequest.constraints}
    for number in sorted(bound):
        constraint = compiled.constraints[number]
        if not constraint.distinct and _is_among(constraint.attribute, template.unmeasured):
            return constraint.attribute
    return ""


def _run_time_attribute(subrequest: Subrequest, names: frozenset[str]) -> str:
    for selector in subrequest.selectors:
        if isinstance(selector.compiled, CompileError):
            continue
        reads = selector.compiled.device_paths
        if reads is None:
            return "the whole device"
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


def check_devices(candidate: CandidateNode, shapes: tuple[int, ...]) -> ItemFit:
    """Whether the claims of an item find devices, allocated pod by pod."""
    devices = candidate.devices
    for shape in shapes:
        result = run_time_dependency(devices, candidate.template, shape)
        if result:
            return ItemFit("run-time-only", result, shape)
    state = devices.initial
    for shape in shapes:
        verdict = devices.verdict(shape, state)
        if isinstance(verdict, Undecided):
            return ItemFit("undecided", f"the search for devices stopped after {verdict.steps} steps", shape)
        if not isinstance(verdict, Solution):
            unknown = unmeasured_match(devices, candidate.template, shape)
            if unknown and isinstance(verdict, NoFit):
                return ItemFit(
                    "run-time-only",
                    f"the values of matchAttribute {unknown} are known only after the machine has started",
                    shape,
                )
            return ItemFit("devices", "its devices do not satisfy the claims", shape)
        after = devices.after(state, shape)
        assert after is not None
        state = after
    return FITS


def is_allocation_usable(claim: ResourceClaim, candidate: CandidateNode) -> bool:
    """Whether the devices of an allocated claim can be used on the candidate."""
    allocation = claim.status.allocation
    return (
        allocation is None
        or allocation.node_selector is None
        or selector_matches(allocation.node_selector, candidate.machine.facts)
    )


def check_filters(pod: PendingPod, candidate: CandidateNode) -> ItemFit:
    """The scheduler's filters for a single node, and whether allocated claims can be used there."""
    named = pod.requirements.named_nodes()
    if named is not None and candidate.machine.name not in named:
        return ItemFit("affinity", "it requires another node")
    for filter in FILTERS:
        refusal = filter(pod.requirements, candidate.machine)
        if refusal is not None:
            taint = untolerated(pod, candidate.machine.taints) if refusal.cause == "taint" else ""
            return ItemFit(refusal.cause, taint or refusal.texts[0])
    for claim in pod.claims.allocated:
        if not is_allocation_usable(claim, candidate):
            return ItemFit("claim", f"claim {claim.key} is allocated on another node")
    return FITS


def runs_on(item: Item, arch: str) -> bool:
    """Whether the pods of an item run on an architecture. That of their images is unknown: on machines other than amd64
    they do only if they select the architecture.
    """
    return arch == _DEFAULT_ARCH or all(ARCH_LABEL in selected_labels(pod) for pod in item.pods)


def check_architecture(item: Item, candidate: CandidateNode) -> ItemFit:
    """Whether the pods run on the candidate's architecture."""
    arch = candidate.offer.instance.arch if candidate.offer is not None else _DEFAULT_ARCH
    if runs_on(item, arch):
        return FITS
    return ItemFit("arch", f"{candidate.name.partition(' ')[0]} is {arch}, but the pod does not select {ARCH_LABEL}")
