"""The cpu, memory and huge pages that devices use of their node (KEP-5517): what is free, and what a pod lacks.

Explanations otherwise ignore these resources, because a shortage of them has nothing to do with devices. Here it has:
an allocation of devices takes them. Without such devices, nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import distance
from allotment.explanation.input import ExplainInput
from allotment.model.core import Pod
from allotment.model.meta import ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import AllocationResult, ResourceClaim
from allotment.model.trees import Tree, to_tree
from allotment.node_fit.node_allocatable import (
    ClaimUse,
    NodeAllocatableDevices,
    UnknownUse,
    claim_statuses,
    uncovered_by_pod_level,
)
from allotment.node_fit.pod_requirements import PodRequirements, PodRequirementsCache, amounts
from allotment.phrases import first_few

SHORT: Final = "node-resources-short"
SHARED: Final = "mapped-claim-in-use"
UNKNOWN: Final = "device-use-unknown"
_ENDED: Final = ("Succeeded", "Failed")
#: Resources that devices can use of their node.
_BYTES: Final = ("memory", "ephemeral-storage")

Allocations = Sequence[tuple[ResourceClaim, AllocationResult]]


class Shortage(NamedTuple):
    """A resource that a node lacks. Amounts as in `PodRequirements`."""

    resource: str
    requested: int
    by_devices: int
    free: int
    allocatable: int
    text: str = ""
    """Kubernetes' text if the pod-level resources are too small, which does not depend on the node."""

    @property
    def missing(self) -> int:
        return self.requested - self.free


class NodeAccounts:
    """The free resources of each node, next to the pods of the input."""

    def __init__(self, input: ExplainInput) -> None:
        self._devices = NodeAllocatableDevices()
        self._allocatable: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._demands = PodRequirementsCache()
        self._facts: dict[str, NodeFacts] = {}
        if not input.features.enabled("DRANodeAllocatableResources"):
            return
        for slice_ in input.slices:
            self._devices.put(slice_)
        if not self._devices:
            return
        for node in input.nodes:
            self._facts[node.metadata.name] = NodeFacts(node.metadata.name, node.metadata.labels)
            self._allocatable[node.metadata.name] = amounts(node.status.allocatable or node.status.capacity)
        for pod in (*input.pods, *input.others):
            if pod.spec.node_name and pod.status.phase not in _ENDED:
                self.add(pod, pod.spec.node_name, _allocated(pod, input.claims))

    def __bool__(self) -> bool:
        """Whether any device uses resources of its node."""
        return bool(self._devices)

    def add(self, pod: Pod, node: str, allocations: Allocations) -> None:
        """Count a pod that is on a node with these allocations."""
        self._add(pod, node, allocations, 1)

    def remove(self, pod: Pod, node: str, allocations: Allocations) -> None:
        """Take back `add`."""
        self._add(pod, node, allocations, -1)

    def _add(self, pod: Pod, node: str, allocations: Allocations, sign: int) -> None:
        if not self._devices:
            return
        used = self._used.setdefault(node, {})
        try:
            demand, _, _ = self._demand(pod, node, allocations)
        except UnknownUse:
            demand = self._demands.of(to_tree(pod.spec))
        for name, amount in demand.requests.items():
            used[name] = used.get(name, 0) + sign * amount

    def shortage(self, pod: Pod, node: str, allocations: Allocations) -> Shortage | None:
        """The resource that a node lacks for a pod with these allocations; None if there is none, or if its devices use
        none.

        Raises `UnknownUse`, as kube-scheduler ends the attempt.
        """
        demand, statuses, spec = self._demand(pod, node, allocations)
        if not statuses:
            return None
        own = self._demands.of(spec).requests
        if text := uncovered_by_pod_level(spec, statuses):
            return Shortage("", 0, 0, 0, 0, text)
        allocatable, used = self._allocatable.get(node), self._used.get(node, {})
        if allocatable is None:
            return None  # no Node object: its resources are unknown
        found = [
            Shortage(name, amount, amount - own.get(name, 0), allocatable.get(name, 0) - used.get(name, 0),
                     allocatable.get(name, 0))
            for name, amount in demand.requests.items()
        ]  # fmt: skip
        return next((short for short in found if short.missing > 0), None)

    def is_taken(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Whether an allocated claim stands for resources of the node that another pod uses."""
        allocation = claim.status.allocation
        users = [user for user in claim.status.reserved_for if user.resource == "pods"]
        others = users and all((user.name, user.uid) != (pod.metadata.name, pod.metadata.uid) for user in users)
        return bool(self._devices and others and allocation is not None and self._devices.is_mapped(allocation))

    def _demand(self, pod: Pod, node: str, allocations: Allocations) -> tuple[PodRequirements, list[Tree], Tree]:
        spec = to_tree(pod.spec)
        names = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
        entries: dict[str, set[str]] = {}
        for entry in pod.spec.resource_claims:
            claim = entry.resource_claim_name or names.get(entry.name) or f"{pod.metadata.name}-{entry.name}"
            entries.setdefault(claim, set()).add(entry.name)
        uses = [ClaimUse(_key(c), a, _entries_of(c, entries)) for c, a in allocations]
        statuses = claim_statuses(spec, uses, self._devices, self._facts.get(node))
        return self._demands.of(spec, {"nodeAllocatableResourceClaimStatuses": statuses}), statuses, spec


def _key(claim: ResourceClaim) -> ObjectKey:
    return ObjectKey(claim.metadata.namespace, claim.metadata.name)


def _entries_of(claim: ResourceClaim, entries: Mapping[str, set[str]]) -> frozenset[str]:
    name = claim.metadata.name
    exact = entries.get(name)
    return frozenset(exact or next((e for prefix, e in entries.items() if name.startswith(f"{prefix}-")), ()))


def _allocated(pod: Pod, claims: Mapping[ObjectKey, ResourceClaim]) -> list[tuple[ResourceClaim, AllocationResult]]:
    names = [entry.resource_claim_name for entry in pod.spec.resource_claims]
    names += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
    found = [claims.get(ObjectKey(pod.metadata.namespace, name)) for name in names if name]
    return [(c, c.status.allocation) for c in found if c is not None and c.status.allocation is not None]


# --- reasons ---------------------------------------------------------------------------------------------------------


def unknown_reason(error: UnknownUse) -> Diagnosis:
    """The reason if it is unknown what the devices of the pod use."""
    summary = f"it is unknown how much cpu, memory or huge pages of the node the devices use: {error}"
    return Diagnosis(headline=AllocationRefusal(code=UNKNOWN, summary=summary, kubernetes=str(error)))


def shared_reason(claim: ResourceClaim) -> Diagnosis:
    """The reason if a claim stands for resources that another pod uses."""
    users = first_few([f"{claim.metadata.namespace}/{user.name}" for user in claim.status.reserved_for])
    summary = (
        f"claim {claim.key} is in use by pod {users}, and its device stands for cpu, memory or huge pages of the node, "
        "which pods cannot share"
    )
    text = CODES[SHARED].kubernetes.replace("NAME", claim.metadata.name)
    return Diagnosis(headline=AllocationRefusal(code=SHARED, summary=summary, claim=str(claim.key), kubernetes=text))


def shortage_rows(
    pod: Pod, where: tuple[str, str], shortages: Mapping[str, Shortage]
) -> tuple[NodeReason, ...]:  # fmt: skip
    """The reasons of nodes that lack resources for the devices, the one that lacks least first.

    ``where``: the object that contains the pod, and the path there.
    """
    ordered = sorted(shortages.items(), key=lambda item: (item[1].missing, item[0]))
    return tuple(NodeReason((node,), _refusal(pod, where, node, short)) for node, short in ordered)


def _refusal(pod: Pod, where: tuple[str, str], node: str, short: Shortage) -> AllocationRefusal:
    if short.text:
        return AllocationRefusal(code=SHORT, summary=short.text, node=node, kubernetes=short.text)
    amount = short.resource
    summary = (
        f"the devices are free on {node}, but {amount} is short: {_text(amount, short.requested)} requested, "
        f"{_text(amount, short.by_devices)} of it by devices; {_text(amount, max(short.free, 0))} of "
        f"{_text(amount, short.allocatable)} free"
    )
    return AllocationRefusal(
        code=SHORT,
        summary=summary,
        node=node,
        changes=_changes(pod, where, node, short),
        kubernetes=f"Insufficient {short.resource}",
    )


def _changes(pod: Pod, where: tuple[str, str], node: str, short: Shortage) -> tuple[SuggestedChange, ...]:
    """A smaller request of the only container with one, if what is left suffices; otherwise waiting, if it can help."""
    path = where[1]
    own = [
        (number, container) for number, container in enumerate(pod.spec.containers)
        if short.resource in container.resources.requests
    ]  # fmt: skip
    left = short.requested - short.by_devices - short.missing
    if len(own) == 1 and left > 0 and not pod.spec.init_containers and pod.spec.resources is None:
        number, container = own[0]
        becomes = _text(short.resource, left)
        return (
            SuggestedChange(
                text=f"request {short.resource} {becomes} in container {container.name}",
                object=where[0],
                path=f"{path}spec.containers[{number}].resources.requests",
                becomes={short.resource: becomes},
                node=node,
                remedy="less",
            ),
        )
    if short.requested <= short.allocatable:
        text = f"wait until other pods on {node} release {_text(short.resource, short.missing)} of {short.resource}"
        return (SuggestedChange(text=text, node=node, remedy="wait"),)
    return ()


def _text(resource: str, amount: int) -> str:
    if resource == "cpu":
        return str(Quantity(amount, -3, True, "DecimalSI"))
    is_size = resource in _BYTES or resource.startswith("hugepages-")
    return str(Quantity.binary(amount) if is_size else Quantity.of_int(amount))


def with_shortages(reasons: Diagnosis | None, rows: Iterable[NodeReason]) -> Diagnosis:
    """The reasons with nodes added that lack resources for the devices; these are nearest to fitting, unless the first
    remedy of the ``reasons`` loses less."""
    first, *others = rows
    before = () if reasons is None else reasons.nodes or (NodeReason((), reasons.headline),)
    lost = distance(change.remedy for change in first.refused.changes)
    if reasons is not None and distance(change.remedy for change in reasons.headline.changes) < lost:
        return Diagnosis(headline=reasons.headline, nodes=(*before, first, *others))
    nodes = (first, *others, *(row for row in before if row.nodes))
    return Diagnosis(headline=first.refused, nodes=nodes if len(nodes) > 1 else ())
