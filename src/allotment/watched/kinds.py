"""The kinds that a watched cluster reads, in the versions that programs use. No Secrets, no ConfigMaps, and no Leases,
which change every few seconds."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.cluster.client import Resource
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SLICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    TAINT_RULES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from allotment.model.core import Namespace, Node, Pod
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.model.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)


class WatchedKind(NamedTuple):
    """``type``: of the values; None for events, which are kept as trees. ``fields``: a field selector."""

    resource: Resource
    type: type[Object] | None
    fields: str = ""


#: In the order of a snapshot.
KINDS: Final = (
    WatchedKind(NODES, Node),
    WatchedKind(DEVICE_CLASSES, DeviceClass),
    WatchedKind(SLICES, ResourceSlice),
    WatchedKind(TAINT_RULES, DeviceTaintRule),
    WatchedKind(CLAIMS, ResourceClaim),
    WatchedKind(NAMESPACES, Namespace),
    WatchedKind(CLAIM_TEMPLATES, ResourceClaimTemplate),
    WatchedKind(PODS, Pod),
    WatchedKind(POD_GROUPS, PodGroup),
    WatchedKind(VOLUMES, PersistentVolume),
    WatchedKind(VOLUME_CLAIMS, PersistentVolumeClaim),
    WatchedKind(STORAGE_CLASSES, StorageClass),
    WatchedKind(DEPLOYMENTS, Deployment),
    WatchedKind(REPLICA_SETS, ReplicaSet),
    WatchedKind(STATEFUL_SETS, StatefulSet),
    WatchedKind(DAEMON_SETS, DaemonSet),
    WatchedKind(JOBS, Job),
    WatchedKind(CRON_JOBS, CronJob),
    WatchedKind(REPLICATION_CONTROLLERS, ReplicationController),
    WatchedKind(EVENTS, None, "involvedObject.kind=Pod"),
)
