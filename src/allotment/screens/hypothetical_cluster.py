"""A copy of a cluster's objects that changes: pods lose nodes and claims, nodes and devices are added and removed.

Pods that lose their node are pending again, as their controllers create them again; their generated claims are deleted
with them, and a named claim is deallocated when its last user is gone (KEP-4381). Pods of DaemonSets end with their
node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from allotment.api.objects.inputs import Inputs, queued
from allotment.explanation.origin_mapping import owner_of
from allotment.model.core import Node, Pod, PodStatus
from allotment.model.features import Features
from allotment.model.generated_claims import is_owned_by
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import ResourceClaim, ResourceClaimStatus, ResourceSlice
from allotment.screens.holders import workload_of
from allotment.watched.view import ClusterView, Identity, identity_of

_Kind = TypeVar("_Kind", bound=Object)
_ENDED = ("Succeeded", "Failed")
#: Kinds of owners whose pods belong to one node.
_NODE_OWNERS = ("DaemonSet ", "Node ")


class LostDevices(NamedTuple):
    """The devices that a pod loses, as ``pool/device``."""

    pod: ObjectKey
    claim: ObjectKey
    devices: tuple[str, ...]
    workload: str = ""


class HypotheticalCluster:
    """The objects of a view, after changes."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.features: Features = view.inputs.features
        self.objects: dict[Identity, Object] = {identity_of(value): value for value in view.inputs.cluster}
        self.lost: list[LostDevices] = []
        self.sources: dict[ObjectKey, str] = {}
        """The pods that have to be placed again, with the node that they were on; new ones have none."""
        self.undone_by: set[tuple[str, str]] = set()
        """The remedies that undo what was assumed, each with its node or workload."""

    # --- reading -----------------------------------------------------------------------------------------------------

    def of(self, kind: type[_Kind]) -> Iterator[_Kind]:
        """Yield the objects of a kind."""
        return (value for value in list(self.objects.values()) if isinstance(value, kind))

    def node(self, name: str) -> Node | None:
        """Return a node."""
        found = self.objects.get(("Node", ObjectKey("", name)))
        return found if isinstance(found, Node) else None

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods on a node that have not ended."""
        return [pod for pod in self.of(Pod) if pod.spec.node_name == node and pod.status.phase not in _ENDED]

    def pods_of(self, workload: str) -> list[Pod]:
        """Return the pods of a workload (``Deployment ml/web``) that have not ended."""
        return [pod for pod in self.of(Pod) if workload_of(pod) == workload and pod.status.phase not in _ENDED]

    def users_of(self, claim: ResourceClaim) -> list[Pod]:
        """Return the pods that a claim is reserved for."""
        keys = (ObjectKey(claim.metadata.namespace, user.name) for user in claim.status.reserved_for)
        found = (self.objects.get(("Pod", key)) for key in keys)
        return [pod for pod in found if isinstance(pod, Pod)]

    def claims_on(self, is_lost: Callable[[str, str, str], bool]) -> list[ResourceClaim]:
        """Return the claims that hold any of the devices that a function of driver, pool and name selects."""
        return [
            claim
            for claim in self.of(ResourceClaim)
            if claim.status.allocation is not None
            and any(is_lost(r.driver, r.pool, r.device) for r in claim.status.allocation.devices.results)
        ]

    def inputs(self, values: Iterable[Object] | None = None) -> Inputs:
        """Return the objects, or other ones, as those of a cluster."""
        chosen = self.objects.values() if values is None else values
        return Inputs(self.features, queued(chosen), (), self.view.inputs.notes)

    # --- changing ----------------------------------------------------------------------------------------------------

    def put(self, value: Object) -> None:
        """Add or replace an object."""
        self.objects[identity_of(value)] = value

    def delete(self, value: Object) -> None:
        """Delete an object."""
        self.objects.pop(identity_of(value), None)

    def evict(self, pods: Iterable[Pod], *, node_ends: bool = False) -> int:
        """Let pods lose their node, and return their number. ``node_ends``: pods of DaemonSets end, too."""
        count = 0
        for pod in pods:
            is_daemon = owner_of(pod).startswith(_NODE_OWNERS)
            if is_daemon and not node_ends:
                continue
            count += 1
            self._lose(pod)
            self._release(pod)
            if is_daemon:
                self.delete(pod)
            else:
                self.sources.setdefault(pod.key, pod.spec.node_name)
                status = PodStatus(phase="Pending")
                self.put(replace(pod, spec=replace(pod.spec, node_name=""), status=status))
        return count

    def end(self, pod: Pod) -> None:
        """Delete a pod that is not created again."""
        self._lose(pod)
        self._release(pod)
        self.delete(pod)

    def start(self, pod: Pod) -> None:
        """Add a new pod."""
        self.sources[pod.key] = ""
        self.put(pod)

    def publish(self, slices: Sequence[ResourceSlice], *, instead_of: str = "") -> None:
        """Add slices. ``instead_of``: they replace those of their drivers on a node; without slices, all of it."""
        drivers = {slice_.spec.driver for slice_ in slices}
        for old in self.of(ResourceSlice) if instead_of else ():
            if old.spec.node_name == instead_of and (not drivers or old.spec.driver in drivers):
                self.delete(old)
        for new in slices:
            self.put(new)

    def _lose(self, pod: Pod) -> None:
        for claim in self._claims_of(pod):
            allocation = claim.status.allocation
            if allocation is not None and allocation.devices.results:
                devices = tuple(f"{result.pool}/{result.device}" for result in allocation.devices.results)
                self.lost.append(LostDevices(pod.key, claim.key, devices, workload_of(pod)))

    def _claims_of(self, pod: Pod) -> Iterator[ResourceClaim]:
        names = [status.resource_claim_name for status in pod.status.resource_claim_statuses]
        names += [entry.resource_claim_name for entry in pod.spec.resource_claims]
        if pod.status.extended_resource_claim_status is not None:
            names.append(pod.status.extended_resource_claim_status.resource_claim_name)
        for name in dict.fromkeys(filter(None, names)):
            found = self.objects.get(("ResourceClaim", ObjectKey(pod.metadata.namespace, name)))
            if isinstance(found, ResourceClaim):
                yield found

    def _release(self, pod: Pod) -> None:
        for claim in list(self._claims_of(pod)):
            if is_owned_by(claim, pod) and claim.metadata.owner_references:
                self.delete(claim)
                continue
            users = tuple(user for user in claim.status.reserved_for if user.name != pod.metadata.name)
            status = replace(claim.status, reserved_for=users) if users else ResourceClaimStatus()
            self.put(replace(claim, status=status))
