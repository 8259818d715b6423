"""The state that the metrics describe: a cluster's devices, claims and pending pods, updated incrementally.

The values are API objects; allocations are tracked by the engine's inventory, so that the metrics agree with the
scheduler and with ``allot free``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.explanation.extended_resources import is_extended
from allotment.explanation.node_eligibility import nodes_of
from allotment.model.contested_claims import is_contested
from allotment.model.core import HOSTNAME_LABEL, Namespace, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.pod_groups import are_pods_scheduled_together
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.workloads import PodGroup


class ExporterState:
    """The state. Reading and changing it must not overlap."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.inventory = Inventory(features)
        self.nodes: dict[str, Node] = {}
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        self.pending_pods: dict[ObjectKey, Pod] = {}
        """Pods that request devices and have no node."""
        self.groups = are_pods_scheduled_together(features)
        """Whether pods of a group are scheduled together."""
        self.grouped_pods: dict[ObjectKey, Pod] = {}
        """All pods of groups, if they are scheduled together."""
        self.pools: dict[PoolID, dict[str, ResourceSlice]] = {}
        self.device_names: dict[str, frozenset[str]] = {}
        """The devices of each slice."""
        self.classes_version = 0
        """Incremented with every change of a class."""
        self.version = 0
        """Incremented with every change that affects whether pods fit."""
        self._others: dict[tuple[type[Object], ObjectKey], Object] = {}
        self._slice_counts: Counter[str] = Counter()

    @classmethod
    def of(cls, values: Iterable[Object], features: Features) -> ExporterState:
        """Return the state of these objects; unrelated kinds are ignored."""
        state = cls(features)
        for value in values:
            state.put(value)
        return state

    def put(self, value: Object) -> None:
        """Add or replace an object."""
        key = value.key
        if isinstance(value, ResourceClaim):
            self._put_claim(key, value)
        elif isinstance(value, Pod):
            self._put_pod(key, value)
        elif isinstance(value, Node):
            self._put_node(value)
        elif isinstance(value, ResourceSlice):
            self._put_slice(value)
        elif isinstance(value, DeviceClass):
            self.inventory.put_class(value)
            self.classes_version += 1
        elif isinstance(value, DeviceTaintRule):
            known = self.inventory.taint_rules.get(key.name)
            if known is not None and known.spec == value.spec:
                return  # only its status changed
            self.inventory.put_taint_rule(value)
        elif isinstance(value, Namespace | ResourceClaimTemplate | PodGroup):
            self._others[type(value), key] = value
        else:
            return
        self.version += 1

    def remove(self, kind: type[Object], key: ObjectKey) -> None:
        """Remove an object if it exists."""
        self.version += 1
        if kind is ResourceClaim:
            if self.claims.pop(key, None) is not None:
                self.inventory.free(key)
        elif kind is Pod:
            self.pending_pods.pop(key, None)
            self.grouped_pods.pop(key, None)
        elif kind is Node:
            if self.nodes.pop(key.name, None) is not None:
                self._update_node(key.name)
        elif kind is ResourceSlice:
            self._remove_slice(key.name)
        elif kind is DeviceClass:
            self.inventory.remove_class(key.name)
            self.classes_version += 1
        elif kind is DeviceTaintRule:
            self.inventory.remove_taint_rule(key.name)
        else:
            self._others.pop((kind, key), None)

    def missing_nodes(self) -> frozenset[str]:
        """Return nodes that only slices name, if other nodes are known: their devices cannot be used."""
        if not any(node.metadata.uid for node in self.nodes.values()):
            return frozenset()
        return frozenset(self.inventory.nodes.keys() - self.nodes.keys())

    def values(self) -> Iterator[Object]:
        """Yield all objects that affect whether pods fit, without the pods."""
        yield from self.nodes.values()
        yield from self.inventory.classes.values()
        yield from self.inventory.slices.values()
        yield from self.inventory.taint_rules.values()
        yield from self._others.values()
        yield from self.claims.values()

    def publishes(self, device: DeviceID) -> bool:
        """Whether any slice publishes the device."""
        return any(device.device in self.device_names[name] for name in self.pools.get(PoolID(*device[:2]), ()))

    # --- kinds ---------------------------------------------------------------------------------------------------

    def _put_claim(self, key: ObjectKey, claim: ResourceClaim) -> None:
        known = self.claims.get(key)
        self.claims[key] = claim
        allocation = claim.status.allocation
        # A newly detached claim also changes the key: its cost is attributed to the other holders.
        if known is not None and _usage_key(known) == _usage_key(claim):
            return
        self.inventory.free(key)
        if allocation is not None:
            self.inventory.allocate(key, allocation)

    def _put_pod(self, key: ObjectKey, pod: Pod) -> None:
        if pod.is_pending and requests_devices(pod):
            self.pending_pods[key] = pod
        else:
            self.pending_pods.pop(key, None)
        if self.groups and pod.spec.scheduling_group is not None:
            self.grouped_pods[key] = pod

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        known = self.nodes.get(name)
        self.nodes[name] = node
        declared = node.status.declared_features
        if known is None or known.metadata.labels != node.metadata.labels or known.status.declared_features != declared:
            self.inventory.put_node(name, node.metadata.labels, declared)

    def _put_slice(self, slice_: ResourceSlice) -> None:
        self._remove_slice(slice_.metadata.name, gone=False)
        self.inventory.put_slice(slice_)
        pool = PoolID(slice_.spec.driver, slice_.spec.pool.name)
        self.pools.setdefault(pool, {})[slice_.metadata.name] = slice_
        self.device_names[slice_.metadata.name] = frozenset(device.name for device in slice_.spec.devices or ())
        for name in nodes_of(slice_):
            self._slice_counts[name] += 1
            if name not in self.inventory.nodes:
                self._update_node(name)

    def _remove_slice(self, name: str, *, gone: bool = True) -> None:
        slice_ = self.inventory.slices.get(name)
        if slice_ is None:
            return
        pool = PoolID(slice_.spec.driver, slice_.spec.pool.name)
        self.pools[pool].pop(name, None)
        if not self.pools[pool]:
            del self.pools[pool]
        del self.device_names[name]
        if gone:
            self.inventory.remove_slice(name)
        for node in nodes_of(slice_):
            self._slice_counts[node] -= 1
            if gone and not self._slice_counts[node]:
                del self._slice_counts[node]
                self._update_node(node)

    def _update_node(self, name: str) -> None:
        """Keep a node that only slices name, with the hostname as its only label; remove it if none does."""
        if name in self.nodes:
            return
        if self._slice_counts[name] > 0:
            self.inventory.put_node(name, {HOSTNAME_LABEL: name})
        else:
            self.inventory.remove_node(name)


def requests_devices(pod: Pod) -> bool:
    """Whether a pod requests devices: by claims, or by extended resources, which a class may provide."""
    if pod.spec.resource_claims:
        return True
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(
        is_extended(name)
        for container in containers
        for name in (*container.resources.requests, *container.resources.limits)
    )


def _usage_key(claim: ResourceClaim) -> tuple[object, ...]:
    return claim.metadata.uid, claim.status.allocation, is_contested(claim)
