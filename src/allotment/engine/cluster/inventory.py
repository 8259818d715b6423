"""The cluster's state in the engine: nodes, slices, classes, taint rules and allocations.

Changes are incremental: each one invalidates only the affected nodes and records them in a journal, from which caches
per node (see `placement`) learn what to evaluate again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from allotment.engine.cluster.devices import DeviceRecord, TraitsTable, is_cel_convertible
from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.journal import ChangeJournal
from allotment.engine.cluster.layout import LayoutTable, NodeView, build_view
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.engine.cluster.pools import (
    Pool,
    PoolRules,
    PoolStatus,
    UnusableSlice,
    counts_everywhere,
    gather_pool,
    is_relevant,
    sort_pools,
)
from allotment.engine.cluster.taints import rule_applies
from allotment.engine.cluster.usage import Usage
from allotment.engine.release import release
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

#: A change to a pool on more nodes than this counts as a change to all nodes.
_MAX_NODES_PER_CHANGE = 64


class _PoolEntry:
    """The slices of one pool, and the nodes that see any of its devices."""

    __slots__ = ("counting", "ignored", "nodes", "slices", "unbound")

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.counting: dict[str, ResourceSlice] = {}
        """Slices that count on every node because of their shared counters."""
        self.ignored: set[str] = set()
        """Names of the slices that the rules ignore; kept, because they are needed for every node."""
        self.nodes: dict[str, int] = {}
        """Number of slices by the node that they name."""
        self.unbound = 0
        """Number of slices whose devices may reach nodes that the slice does not name."""

    def add(self, slice_: ResourceSlice, rules: PoolRules) -> None:
        self.slices[slice_.metadata.name] = slice_
        self._count(slice_, rules, 1)

    def remove(self, slice_: ResourceSlice, rules: PoolRules) -> None:
        del self.slices[slice_.metadata.name]
        self._count(slice_, rules, -1)

    def replace(self, old: ResourceSlice, new: ResourceSlice, rules: PoolRules) -> None:
        """Replace a slice; the new one keeps the position of the old one."""
        self._count(old, rules, -1)
        self.slices[new.metadata.name] = new
        self._count(new, rules, 1)

    def _count(self, slice_: ResourceSlice, rules: PoolRules, by: int) -> None:
        node = slice_.spec.node_name
        if rules.ignores(slice_):
            (self.ignored.add if by > 0 else self.ignored.discard)(slice_.metadata.name)
        if counts_everywhere(slice_, rules):
            if by > 0:
                self.counting[slice_.metadata.name] = slice_
            else:
                del self.counting[slice_.metadata.name]
        elif node:
            left = self.nodes.get(node, 0) + by
            if left:
                self.nodes[node] = left
            else:
                del self.nodes[node]
        else:
            self.unbound += by


class Inventory:
    """Nodes, slices, classes, taint rules and allocations. Not thread-safe."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._rules_enabled = features.enabled("DRADeviceTaintRules") and features.enabled("DRADeviceTaints")
        of_release = release(features)
        self._pool_rules = PoolRules.of(features)
        self._lists = features.enabled("DRAListTypeAttributes") or of_release.lists_always_readable
        capacity = features.enabled("DRAConsumableCapacity")
        self.usage = Usage(capacity)
        self._traits = TraitsTable(capacity, features.enabled("DRADeviceCompatibilityGroups"))
        self._skips_checked = of_release.refuses_disabled_fields
        self._skips_enabled = features.enabled("DRAOptionalNodeOperations")
        self._layouts = LayoutTable()
        self._classes: dict[str, DeviceClass] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._records: dict[str, tuple[DeviceRecord, ...]] = {}
        self._pools: dict[PoolID, _PoolEntry] = {}
        self._pools_on: dict[str, dict[PoolID, None]] = {}
        self._pools_everywhere: dict[PoolID, None] = {}
        self._foreign: dict[PoolID, Pool] = {}
        self._nodes: dict[str, NodeFacts] = {}
        self._indexes: dict[str, int] = {}
        self._node_names: list[str | None] = []
        self._views: dict[str, NodeView] = {}
        self.journal = ChangeJournal()
        self.slice_changes = 0
        """The number of changes of slices so far."""

    @classmethod
    def of(
        cls,
        features: Features,
        *,
        nodes: Iterable[tuple[str, Mapping[str, str]] | NodeFacts] = (),
        slices: Iterable[ResourceSlice] = (),
        classes: Iterable[DeviceClass] = (),
        claims: Iterable[ResourceClaim] = (),
        taint_rules: Iterable[DeviceTaintRule] = (),
    ) -> Inventory:
        """An inventory of these objects; claims without an allocation are ignored.

        A node is a name and labels, or ``NodeFacts`` if its declared features matter.
        """
        inventory = cls(features)
        for node in nodes:
            facts = node if isinstance(node, NodeFacts) else NodeFacts(*node)
            inventory.put_node(facts.name, facts.labels, facts.declared_features)
        for rule in taint_rules:
            inventory.put_taint_rule(rule)
        for device_class in classes:
            inventory.put_class(device_class)
        for slice_ in slices:
            inventory.put_slice(slice_)
        for claim in claims:
            if claim.status.allocation is not None:
                key = claim.key
                inventory.allocate(key, claim.status.allocation)
        return inventory

    # --- reading -------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        """DeviceClasses by name."""
        return self._classes

    @property
    def slices(self) -> Mapping[str, ResourceSlice]:
        """ResourceSlices by name, in the order in which they were added."""
        return self._slices

    @property
    def nodes(self) -> Mapping[str, NodeFacts]:
        """Nodes by name, in the order in which they were added."""
        return self._nodes

    @property
    def taint_rules(self) -> Mapping[str, DeviceTaintRule]:
        """DeviceTaintRules by name; they have no effect unless the gate DRADeviceTaintRules is on."""
        return self._taint_rules

    @property
    def index_count(self) -> int:
        """The number of node indexes in use, including those of removed nodes."""
        return len(self._node_names)

    def node_at(self, index: int) -> str | None:
        """The name of the node with this index, or ``None`` if it was removed. A node keeps its index."""
        return self._node_names[index]

    def index_of(self, node: str) -> int:
        """The index of a node; ``KeyError`` if it is unknown."""
        return self._indexes[node]

    def node_mask(self, nodes: Iterable[str]) -> int:
        """The indexes of these nodes as a bit mask; unknown nodes are ignored."""
        mask = 0
        for node in nodes:
            if node in self._indexes:
                mask |= 1 << self._indexes[node]
        return mask

    def records(self, slice_: ResourceSlice) -> tuple[DeviceRecord, ...]:
        """The devices of one of the inventory's slices, including the taints of rules."""
        name = slice_.metadata.name
        found = self._records.get(name)
        if found is None:
            found = self._records[name] = tuple(self._make_records(slice_))
        return found

    def view(self, node: str) -> NodeView:
        """The pools and devices that a node sees; ``KeyError`` if the node is unknown."""
        found = self._views.get(node)
        if found is None:
            found = self._views[node] = self._build_view(self._nodes[node])
        return found

    def _make_records(self, slice_: ResourceSlice) -> Iterator[DeviceRecord]:
        spec = slice_.spec
        rules = list(self._taint_rules.values()) if self._rules_enabled else []
        for device in spec.devices or ():
            id = DeviceID(spec.driver, spec.pool.name, device.name)
            added = tuple(rule.spec.taint for rule in rules if rule_applies(rule, id)) if rules else ()
            yield DeviceRecord(
                id, device, slice_, self._traits.of(device, added), is_cel_convertible(device, self._lists)
            )

    def _build_view(self, node: NodeFacts) -> NodeView:
        rules = self._pool_rules
        try:
            pools: list[Pool] = []
            for id in dict.fromkeys([*self._pools_on.get(node.name, ()), *self._pools_everywhere]):
                entry = self._pools[id]
                slices = [
                    s for name, s in entry.slices.items() if name not in entry.ignored and is_relevant(s, node, rules)
                ]
                if all(counts_everywhere(s, rules) for s in slices):
                    continue
                slices.sort(key=lambda s: not s.spec.node_name or counts_everywhere(s, rules))
                pool = gather_pool(id, slices, entry.slices.values(), rules, entry.ignored)
                if pool is not None:
                    pools.append(pool)
            seen = {pool.id for pool in pools}
            pools.extend(pool for id, pool in self._foreign.items() if id not in seen)
            can_skip = not self._skips_checked or (
                self._skips_enabled and "DRAOptionalNodeOperations" in node.declared_features
            )
            return build_view(node, sort_pools(pools), self.records, self._layouts, can_skip=can_skip)
        except UnusableSlice as error:
            layout = self._layouts.of((), (), (), (), 0, 0)
            return NodeView(node, (), (), layout, failure=f"gather pool information: {error}")

    # --- nodes ---------------------------------------------------------------------------------------------------

    def put_node(self, name: str, labels: Mapping[str, str], declared_features: Iterable[str] = ()) -> None:
        """Add a node, or change its labels and declared features (``status.declaredFeatures``)."""
        self._nodes[name] = NodeFacts(name, labels, frozenset(declared_features))
        index = self._indexes.get(name)
        if index is None:
            index = self._indexes[name] = len(self._node_names)
            self._node_names.append(name)
        self._views.pop(name, None)
        self.journal.append(index, len(self._node_names))

    def remove_node(self, name: str) -> None:
        """Remove a node if it exists; its slices remain until they are removed."""
        if self._nodes.pop(name, None) is None:
            return
        index = self._indexes.pop(name)
        self._node_names[index] = None
        self._views.pop(name, None)
        self.journal.append(index, len(self._node_names))

    # --- slices --------------------------------------------------------------------------------------------------

    def put_slice(self, slice_: ResourceSlice) -> None:
        """Add a slice, or replace the one of the same name."""
        name = slice_.metadata.name
        id = PoolID(slice_.spec.driver, slice_.spec.pool.name)
        old = self._slices.get(name)
        if old is not None and (old.spec.driver, old.spec.pool.name) != id:
            self.remove_slice(name)
            old = None
        entry = self._pools.setdefault(id, _PoolEntry())
        seen_before = self._seen_by(entry, old)
        self.slice_changes += 1
        self._slices[name] = slice_
        self._records[name] = tuple(self._make_records(slice_))
        if old is None:
            entry.add(slice_, self._pool_rules)
        else:
            entry.replace(old, slice_, self._pool_rules)
        self._pool_changed(id, entry, seen_before)

    def remove_slice(self, name: str) -> None:
        """Remove a slice if it exists."""
        old = self._slices.pop(name, None)
        if old is None:
            return
        self.slice_changes += 1
        self._records.pop(name, None)
        id = PoolID(old.spec.driver, old.spec.pool.name)
        entry = self._pools[id]
        seen_before = self._seen_by(entry, old)
        entry.remove(old, self._pool_rules)
        self._pool_changed(id, entry, seen_before)
        if not entry.slices:
            del self._pools[id]

    def _seen_by(self, entry: _PoolEntry, slice_: ResourceSlice | None) -> tuple[str | None, bool]:
        """The node of this slice, which may no longer see the pool, and whether unnamed nodes see the pool."""
        return (slice_.spec.node_name if slice_ is not None else None), entry.unbound > 0

    def _pool_changed(self, id: PoolID, entry: _PoolEntry, seen_before: tuple[str | None, bool]) -> None:
        """Update the indexes after a slice of the pool was added or removed."""
        left, unbound_before = seen_before
        if left and left not in entry.nodes:
            self._pools_on.get(left, {}).pop(id, None)
            self._node_changed(left)
        if entry.unbound:
            self._pools_everywhere[id] = None
        else:
            self._pools_everywhere.pop(id, None)
        foreign_changed = self._foreign_changed(id, entry)
        if foreign_changed or unbound_before or entry.unbound or len(entry.nodes) > _MAX_NODES_PER_CHANGE:
            for node in entry.nodes:
                self._pools_on.setdefault(node, {})[id] = None
            self._views.clear()
            self.journal.mark_all_changed()
            return
        for node in entry.nodes:
            self._pools_on.setdefault(node, {})[id] = None
            self._node_changed(node)

    def _foreign_changed(self, id: PoolID, entry: _PoolEntry) -> bool:
        """Update the pool as seen by nodes that see none of its devices; return whether it changed for them.

        Until 1.36 slices with shared counters count on every node, so that an unusable pool elsewhere blocks
        ``allocationMode: All`` on unrelated nodes.
        """
        found: Pool | None = None
        if self._pool_rules.partitionable and entry.counting:
            found = gather_pool(id, list(entry.counting.values()), entry.slices.values(), self._pool_rules)
            if found is not None and found.status is PoolStatus.USABLE:
                found = None
        before = self._foreign.pop(id, None)
        if found is not None:
            self._foreign[id] = found
        return found != before

    # --- order ---------------------------------------------------------------------------------------------------

    def arrange_nodes(self, names: Iterable[str]) -> None:
        """Give the nodes, all of which are named, their indexes in this order; nodes are tried in it."""
        self._nodes = {name: self._nodes[name] for name in names}
        self._node_names = list(self._nodes)
        self._indexes = {name: index for index, name in enumerate(self._nodes)}
        self.journal.mark_all_changed()

    # --- classes and rules ---------------------------------------------------------------------------------------

    def put_class(self, device_class: DeviceClass) -> None:
        """Add a class, or replace the one of the same name."""
        self._classes[device_class.metadata.name] = device_class

    def remove_class(self, name: str) -> None:
        """Remove a class if it exists."""
        self._classes.pop(name, None)

    def put_taint_rule(self, rule: DeviceTaintRule) -> None:
        """Add a DeviceTaintRule, or replace the one of the same name."""
        self._taint_rules[rule.metadata.name] = rule
        self._rules_changed()

    def remove_taint_rule(self, name: str) -> None:
        """Remove a rule if it exists."""
        if self._taint_rules.pop(name, None) is not None:
            self._rules_changed()

    def _rules_changed(self) -> None:
        if self._rules_enabled:
            self._records.clear()
            self._views.clear()
            self.journal.mark_all_changed()

    # --- allocations ---------------------------------------------------------------------------------------------

    def allocate(self, claim: ObjectKey, allocation: AllocationResult) -> None:
        """Record a claim's allocation; ``ValueError`` if the claim already has one."""
        self._devices_changed(self.usage.add(claim, allocation))

    def free(self, claim: ObjectKey) -> None:
        """Remove a claim's allocation if there is one."""
        self._devices_changed(self.usage.remove(claim))

    def _devices_changed(self, devices: list[DeviceID]) -> None:
        for id in {PoolID(device.driver, device.pool) for device in devices}:
            entry = self._pools.get(id)
            if entry is None:
                continue
            if entry.unbound or len(entry.nodes) > _MAX_NODES_PER_CHANGE:
                for view in self._views.values():
                    view.forget_state()
                self.journal.mark_all_changed()
                return
            for node in entry.nodes:
                found = self._views.get(node)
                if found is not None:
                    found.forget_state()
                index = self._indexes.get(node)
                if index is not None:
                    self.journal.append(index, len(self._node_names))

    def _node_changed(self, node: str) -> None:
        self._views.pop(node, None)
        index = self._indexes.get(node)
        if index is not None:
            self.journal.append(index, len(self._node_names))
