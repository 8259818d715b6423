"""The cluster without some nodes: their pods are pending again, and claims generated for these pods are deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from allotment.model.core import Namespace, Node, Pod, PodStatus
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.model.trees import Tree, read_value
from allotment.model.workloads import PodGroup
from allotment.planning.consolidation.disruption import pods_to_move
from allotment.planning.consolidation.rescheduling import SimulatedCluster

_KINDS: dict[str, type[Object]] = {
    kind.__name__: kind
    for kind in (
        DeviceClass, DeviceTaintRule, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodGroup,
        ResourceClaim, ResourceClaimTemplate, ResourceSlice, StorageClass,
    )
}  # fmt: skip


def remaining_objects(
    objects: Iterable[Tree], removed: Collection[str], cluster: SimulatedCluster, left_out: Collection[ObjectKey] = ()
) -> Iterator[Object]:
    """The remaining objects as values, for planning. ``left_out``: unschedulable pods, which are not planned for.

    Pods that are bound to a removed node are dropped, the others are pending. Their generated claims are dropped and
    will be generated again; named claims without other consumers are deallocated.
    """
    moved = {pod.resident.uid for node in removed for pod in pods_to_move(cluster, node)}
    gone = {pod.resident.uid for node in removed for pod in cluster.pods_on.get(node, ())} - moved
    deleted_claims = {
        key for pod in cluster.pods.values() if pod.resident.uid in moved | gone for key in pod.current_claims
    }
    for tree in objects:
        kind = _KINDS.get(str(tree.get("kind", "")))
        if kind is None:
            continue
        metadata = tree["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        value = read_value(tree, kind)
        if isinstance(value, Node) and key.name in removed:
            continue
        if isinstance(value, ResourceSlice) and value.spec.node_name in removed:
            continue
        if isinstance(value, Pod):
            uid = value.metadata.uid or f"pod:{key}"
            if uid in gone or key in left_out:
                continue
            if uid in moved:
                value = replace(value, spec=replace(value.spec, node_name=""), status=PodStatus(phase="Pending"))
        elif isinstance(value, ResourceClaim):
            if key in deleted_claims:
                continue
            if value.status.reserved_for:
                users = tuple(user for user in value.status.reserved_for if user.uid not in moved | gone)
                if not users:
                    value = replace(value, status=ResourceClaimStatus())
                elif len(users) < len(value.status.reserved_for):
                    value = replace(value, status=replace(value.status, reserved_for=users))
        yield value
