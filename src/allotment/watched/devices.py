"""``DeviceMemory``: the engine's inventory of a watched cluster and the report on its devices, kept current by changes.

It agrees with ``ClusterState``: slices of nodes that no longer exist are left out, and nodes that only slices name have
only the hostname as label. Used by one thread at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.explanation.node_eligibility import eligibility_nodes, nodes_of, unschedulable_nodes
from allotment.model.core import HOSTNAME_LABEL, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.tools.free import NodeDevices, free
from allotment.tools.report_memory import ReportMemory
from allotment.watched.view import KnownDevices

K = TypeVar("K")

#: The phases of pods whose containers have started.
STARTED: Final = ("Running", "Succeeded", "Failed")


class DeviceChanges(NamedTuple):
    """A report, and the nodes that may differ from the one before; None stands for all nodes."""

    known: KnownDevices
    nodes: frozenset[str] | None


class DeviceMemory:
    """Nodes, slices, classes, taint rules and claims in the engine, and a report on them."""

    def __init__(self, features: Features) -> None:
        self.inventory = Inventory(features)
        self._nodes: dict[str, Node] = {}
        self._identified = 0
        """The number of nodes from an API server; without any, no slice is orphaned."""
        self._slices: dict[str, ResourceSlice] = {}
        self._slices_in: dict[PoolID, dict[str, None]] = {}
        """The names of the slices of a pool."""
        self._slices_of: dict[str, dict[str, None]] = {}
        """The names of the slices that name a node, or whose devices do."""
        self._used: Counter[str] = Counter()
        """The number of slices in the inventory that name a node, or whose devices do."""
        self._orphans: dict[str, str] = {}
        """The slices that are left out, with the missing node."""
        self._claims: dict[ObjectKey, ResourceClaim] = {}
        self._closed: dict[str, str] = {}
        self._report_memory = ReportMemory[NodeDevices]()
        self._position = 0
        self._touched: set[str] = set()

    def change(self, old: Object | None, new: Object | None) -> None:
        """Apply the change of an object; other kinds are ignored."""
        match new or old:
            case ResourceClaim() as claim:
                self._claim(claim, is_gone=new is None)
                for version in (old, new):
                    if isinstance(version, ResourceClaim):
                        self._touch_devices(version, only_admin=True)
            case Pod() if _holding(old) != _holding(new):
                for pod in (old, new):
                    if isinstance(pod, Pod):
                        self._touch_devices_of(pod)
            case Node() as node:
                self._node(node, is_gone=new is None)
            case ResourceSlice() as slice_:
                self._slice(slice_, is_gone=new is None)
            case DeviceClass() as device_class if new is not None:
                self.inventory.put_class(device_class)
            case DeviceClass() as device_class:
                self.inventory.remove_class(device_class.metadata.name)
            case DeviceTaintRule() as rule if new is not None:
                known = self.inventory.taint_rules.get(rule.metadata.name)
                if known is None or known.spec != rule.spec:
                    self.inventory.put_taint_rule(rule)
            case DeviceTaintRule() as rule:
                self.inventory.remove_taint_rule(rule.metadata.name)
            case _:
                pass

    def changes(self) -> DeviceChanges:
        """Return the report, and what changed since the last call."""
        inventory = self.inventory
        indexes = inventory.journal.since(self._position)
        self._position = inventory.journal.end
        touched, self._touched = self._touched, set()
        known = self._report_memory.nodes
        if indexes is None:
            known.clear()
            return DeviceChanges(self._report(), None)
        touched.update(name for name in map(inventory.node_at, set(indexes)) if name is not None)
        is_shared = any(known[name].common for name in touched if name in known)
        for name in touched:
            known.pop(name, None)
        report = self._report()
        is_shared |= any(known[name].common for name in touched if name in known)
        return DeviceChanges(report, frozenset(touched | {""} if is_shared else touched))

    def _report(self) -> KnownDevices:
        report = free(self.inventory, self._claims, self._closed, self._report_memory)
        return KnownDevices(report, tuple(dict.fromkeys(node for _, node in sorted(self._orphans.items()))))

    # --- kinds -------------------------------------------------------------------------------------------------------

    def _claim(self, claim: ResourceClaim, *, is_gone: bool) -> None:
        key = claim.key
        self.inventory.free(key)
        if is_gone:
            self._claims.pop(key, None)
            return
        self._claims[key] = claim
        if claim.status.allocation is not None:
            self.inventory.allocate(key, claim.status.allocation)

    def _touch_devices_of(self, pod: Pod) -> None:
        """Record the change of the nodes whose devices a pod has."""
        for name in _claims_of(pod):
            claim = self._claims.get(ObjectKey(pod.metadata.namespace, name))
            if claim is not None:
                self._touch_devices(claim)

    def _touch_devices(self, claim: ResourceClaim, *, only_admin: bool = False) -> None:
        """Record the change of nodes with devices of a claim. Admin access uses no device, so the engine does not."""
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if result.admin_access or not only_admin:
                for slice_ in self._slices_in.get(PoolID(result.driver, result.pool), ()):
                    self._touched.update(nodes_of(self._slices[slice_]) or ("",))  # or those of several nodes

    def _node(self, node: Node, *, is_gone: bool) -> None:
        name, was_identified = node.metadata.name, self._identified > 0
        known = self._nodes.pop(name, None)
        self._identified -= bool(known is not None and known.metadata.uid)
        if not is_gone:
            self._nodes[name] = node
            self._identified += bool(node.metadata.uid)
        self._touched.add(name)
        self._place_node(name)
        # The first node from an API server makes all slices of missing nodes orphans, and the last one ends that.
        changed = self._slices if was_identified != (self._identified > 0) else self._slices_of.get(name, ())
        for slice_name in tuple(changed):
            self._place_slice(self._slices[slice_name])

    def _place_node(self, name: str) -> None:
        """Put a node into the inventory, also if only slices name it, or remove it."""
        node = self._nodes.get(name)
        self._closed.pop(name, None)
        if node is not None:
            eligible = eligibility_nodes((node,), ())
            self.inventory.put_node(name, eligible[name].facts.labels, eligible[name].facts.declared_features)
            self._closed |= unschedulable_nodes(eligible)
        elif self._used[name]:
            self.inventory.put_node(name, {HOSTNAME_LABEL: name})
        else:
            self.inventory.remove_node(name)

    def _slice(self, slice_: ResourceSlice, *, is_gone: bool) -> None:
        name = slice_.metadata.name
        known = self._slices.pop(name, None)
        for node in nodes_of(known) if known is not None else ():
            _discard(self._slices_of, node, name)
        if known is not None:
            _discard(self._slices_in, _pool_of(known), name)
        if is_gone:
            self._leave_out(name)
            return
        self._slices[name] = slice_
        self._slices_in.setdefault(_pool_of(slice_), {})[name] = None
        for node in nodes_of(slice_):
            self._slices_of.setdefault(node, {})[name] = None
        self._place_slice(slice_)

    def _place_slice(self, slice_: ResourceSlice) -> None:
        """Put a slice into the inventory, or leave it out if it is orphaned (see `split_orphaned`)."""
        name, node = slice_.metadata.name, slice_.spec.node_name
        if slice_.metadata.uid and node and node not in self._nodes and self._identified:
            self._leave_out(name)
            self._orphans[name] = node
            return
        self._orphans.pop(name, None)
        placed = self.inventory.slices.get(name)
        if placed is slice_:
            return
        self.inventory.put_slice(slice_)
        self._count(slice_, 1)
        if placed is not None:
            self._count(placed, -1)

    def _leave_out(self, name: str) -> None:
        self._orphans.pop(name, None)
        placed = self.inventory.slices.get(name)
        if placed is not None:
            self.inventory.remove_slice(name)
            self._count(placed, -1)

    def _count(self, slice_: ResourceSlice, by: int) -> None:
        """Count the nodes that a slice names; those without an object exist while a slice names them."""
        for node in nodes_of(slice_):
            was_used = self._used[node] > 0
            self._used[node] += by
            if not self._used[node]:
                del self._used[node]
            if node not in self._nodes and was_used != (self._used[node] > 0):
                self._touched.add(node)
                self._place_node(node)


def _claims_of(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims of a pod, as far as they exist."""
    yield from filter(None, (each.resource_claim_name for each in pod.spec.resource_claims))
    yield from filter(None, (each.resource_claim_name for each in pod.status.resource_claim_statuses))
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        yield extended.resource_claim_name


def _pool_of(slice_: ResourceSlice) -> PoolID:
    return PoolID(slice_.spec.driver, slice_.spec.pool.name)


def _discard(names: dict[K, dict[str, None]], key: K, name: str) -> None:
    del names[key][name]
    if not names[key]:
        del names[key]


def _holding(pod: Object | None) -> tuple[object, ...]:
    """The part of a pod with devices that is shown with them: its workload, its node, and whether its containers have
    started, so that the devices have been prepared."""
    if not isinstance(pod, Pod):
        return ()
    return pod.metadata.owner_references, pod.spec.node_name, pod.status.phase in STARTED
