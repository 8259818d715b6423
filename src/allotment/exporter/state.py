"""What is measured: a cluster's devices, claims and waiting pods, kept by increments.

Each change costs what it touches. The values are the API's own; which claims hold what is the engine's account, so that
metrics agree with the scheduler and with ``allot free``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.model.contested_claims import is_contested
from allotment.model.core import HOSTNAME_LABEL, Namespace, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.tools.explain.extended_resources import is_extended
from allotment.tools.explain.node_eligibility import nodes_of


class State:
    """See the module. Reading and changing it must not overlap."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.inventory = Inventory(features)
        self.nodes: dict[str, Node] = {}
        self.claims: dict[ObjectKey, ResourceClaim] = {}
        self.waiting: dict[ObjectKey, Pod] = {}
        """Pods that ask for devices and have no node."""
        self.pools: dict[PoolID, dict[str, ResourceSlice]] = {}
        self.names: dict[str, frozenset[str]] = {}
        """The devices of each slice."""
        self.classes_changed = 0
        """How often classes have changed."""
        self.moves = 0
        """How often something changed that decides whether a pod fits."""
        self._others: dict[tuple[type[Object], ObjectKey], Object] = {}
        self._named: Counter[str] = Counter()

    @classmethod
    def of(cls, values: Iterable[Object], features: Features) -> State:
        """The state that these objects describe; kinds that say nothing of devices are left out."""
        state = cls(features)
        for value in values:
            state.put(value)
        return state

    def put(self, value: Object) -> None:
        """Add an object, or replace the one of its name."""
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
            self.classes_changed += 1
        elif isinstance(value, DeviceTaintRule):
            known = self.inventory.taint_rules.get(key.name)
            if known is not None and known.spec == value.spec:
                return  # only its status
            self.inventory.put_taint_rule(value)
        elif isinstance(value, Namespace | ResourceClaimTemplate):
            self._others[type(value), key] = value
        else:
            return
        self.moves += 1

    def remove(self, kind: type[Object], key: ObjectKey) -> None:
        """Remove an object, if it is there."""
        self.moves += 1
        if kind is ResourceClaim:
            if self.claims.pop(key, None) is not None:
                self.inventory.free(key)
        elif kind is Pod:
            self.waiting.pop(key, None)
        elif kind is Node:
            if self.nodes.pop(key.name, None) is not None:
                self._look_at_node(key.name)
        elif kind is ResourceSlice:
            self._remove_slice(key.name)
        elif kind is DeviceClass:
            self.inventory.remove_class(key.name)
            self.classes_changed += 1
        elif kind is DeviceTaintRule:
            self.inventory.remove_taint_rule(key.name)
        else:
            self._others.pop((kind, key), None)

    def gone(self) -> frozenset[str]:
        """Nodes that only slices name, of a server that knows others: nothing of them can be had."""
        if not any(node.metadata.uid for node in self.nodes.values()):
            return frozenset()
        return frozenset(self.inventory.nodes.keys() - self.nodes.keys())

    def values(self) -> Iterator[Object]:
        """All that decides whether pods fit, without the pods."""
        yield from self.nodes.values()
        yield from self.inventory.classes.values()
        yield from self.inventory.slices.values()
        yield from self.inventory.taint_rules.values()
        yield from self._others.values()
        yield from self.claims.values()

    def publishes(self, device: DeviceID) -> bool:
        """Whether any slice has the device."""
        return any(device.device in self.names[name] for name in self.pools.get(PoolID(*device[:2]), ()))

    # --- kinds ---------------------------------------------------------------------------------------------------

    def _put_claim(self, key: ObjectKey, claim: ResourceClaim) -> None:
        known = self.claims.get(key)
        self.claims[key] = claim
        allocation = claim.status.allocation
        # Where it is set aside now, others have its devices, and their cost.
        if known is not None and _holding(known) == _holding(claim):
            return
        self.inventory.free(key)
        if allocation is not None:
            self.inventory.allocate(key, allocation)

    def _put_pod(self, key: ObjectKey, pod: Pod) -> None:
        if pod.is_pending and asks(pod):
            self.waiting[key] = pod
        else:
            self.waiting.pop(key, None)

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        known = self.nodes.get(name)
        self.nodes[name] = node
        if known is None or known.metadata.labels != node.metadata.labels:
            self.inventory.put_node(name, node.metadata.labels)

    def _put_slice(self, slice_: ResourceSlice) -> None:
        self._remove_slice(slice_.metadata.name, gone=False)
        self.inventory.put_slice(slice_)
        pool = PoolID(slice_.spec.driver, slice_.spec.pool.name)
        self.pools.setdefault(pool, {})[slice_.metadata.name] = slice_
        self.names[slice_.metadata.name] = frozenset(device.name for device in slice_.spec.devices or ())
        for name in nodes_of(slice_):
            self._named[name] += 1
            if name not in self.inventory.nodes:
                self._look_at_node(name)

    def _remove_slice(self, name: str, *, gone: bool = True) -> None:
        slice_ = self.inventory.slices.get(name)
        if slice_ is None:
            return
        pool = PoolID(slice_.spec.driver, slice_.spec.pool.name)
        self.pools[pool].pop(name, None)
        if not self.pools[pool]:
            del self.pools[pool]
        del self.names[name]
        if gone:
            self.inventory.remove_slice(name)
        for node in nodes_of(slice_):
            self._named[node] -= 1
            if gone and not self._named[node]:
                del self._named[node]
                self._look_at_node(node)

    def _look_at_node(self, name: str) -> None:
        """A node is known by itself, or by the slices that name it: then nothing is known of its labels."""
        if name in self.nodes:
            return
        if self._named[name] > 0:
            self.inventory.put_node(name, {HOSTNAME_LABEL: name})
        else:
            self.inventory.remove_node(name)


def asks(pod: Pod) -> bool:
    """Whether a pod asks for devices: by claims, or by extended resources, which a class may serve."""
    if pod.spec.resource_claims:
        return True
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(is_extended(name) for one in containers for name in (*one.resources.requests, *one.resources.limits))


def _holding(claim: ResourceClaim) -> tuple[object, ...]:
    return claim.metadata.uid, claim.status.allocation, is_contested(claim)
