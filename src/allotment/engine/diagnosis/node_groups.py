"""``NodeGroups``: the nodes of an inventory in groups of equivalent ones, and the claims that hold their devices.

Nodes are equivalent if they have the same layout, the same state, and the same values of the attributes that the claims
read in selectors or constraints; UUIDs and bus addresses that no claim reads are ignored. The group of a node is
determined again only after the node changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.pools import PoolStatus
from allotment.engine.diagnosis.context import requests_of
from allotment.engine.diagnosis.funnel import compile_or_none
from allotment.model.meta import ObjectKey
from allotment.model.resource import Device, ResourceClaim, ResourceSlice

#: Sets of attributes for which the groups are kept.
_MAX_TABLES: Final = 64
#: The claims that hold a device; several if it is shared, none after they were removed.
_Holding = dict[DeviceID, list[ResourceClaim]]
#: Full names of attributes; None means that whole devices are read.
_Reads = frozenset[str] | None


class _GroupTable:
    """The groups for claims that read the same attributes, as numbers by node index; None if not known."""

    def __init__(self) -> None:
        self.position = -1
        self.numbers: list[int | None] = []
        self.keys: dict[Hashable, int] = {}

    def catch_up(self, inventory: Inventory) -> None:
        """Forget the groups of the nodes that changed since the last call."""
        journal, count = inventory.journal, inventory.index_count
        changed = journal.since(self.position) if self.position >= 0 else None
        self.position = journal.end
        if changed is None or len(self.keys) > 1000 + 2 * count:  # most keys are of earlier states
            self.numbers = [None] * count
            self.keys.clear()
            return
        self.numbers.extend([None] * (count - len(self.numbers)))
        for index in changed:
            self.numbers[index] = None


class NodeGroups:
    """The groups of an inventory's nodes. Report the claims that are allocated in the inventory to it.

    ``namespaces``: those of claims that held devices at any time.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.namespaces: set[str] = set()
        self._holding: _Holding = {}
        self._shared: set[DeviceID] = set()
        """The devices that several claims held at any time since the last call of `arrange`."""
        self._tables: dict[_Reads, _GroupTable] = {}
        self._index: _SliceIndex | None = None

    # --- claims ------------------------------------------------------------------------------------------------------

    def add(self, claim: ResourceClaim) -> None:
        """Add a claim that holds devices."""
        if claim.status.allocation is None:
            return
        self.namespaces.add(claim.metadata.namespace)
        for result in claim.status.allocation.devices.results:
            device = DeviceID(result.driver, result.pool, result.device)
            entry = self._holding.setdefault(device, [])
            if claim not in entry[-1:]:
                entry.append(claim)
            if len(entry) > 1:
                self._shared.add(device)

    def remove(self, claim: ResourceClaim) -> None:
        """Remove a claim again."""
        if claim.status.allocation is None:
            return
        for result in claim.status.allocation.devices.results:
            device = DeviceID(result.driver, result.pool, result.device)
            entry = self._holding.get(device, [])
            if claim in entry:
                entry.reverse()
                entry.remove(claim)
                entry.reverse()
            if not entry:
                self._holding.pop(device, None)

    def arrange(self, claims: Mapping[ObjectKey, ResourceClaim]) -> None:
        """List the claims of each device in the order of ``claims``, which has all of them."""
        self._shared = {device for device in self._shared if len(self._holding.get(device, ())) > 1}
        if not self._shared:
            return
        places = {key: place for place, key in enumerate(claims)}
        for device in self._shared:
            self._holding[device].sort(key=lambda claim: places[claim.key])

    # --- slices ------------------------------------------------------------------------------------------------------

    @property
    def index(self) -> _SliceIndex:
        """The slices of the inventory by pool and node."""
        if self._index is None or self._index.changes != self.inventory.slice_changes:
            self._index = _SliceIndex(self.inventory)
        return self._index

    def slices(self, node: str) -> tuple[ResourceSlice, ...]:
        """All slices of the pools that affect what a node sees."""
        return self.index.slices(node)

    def claims_on(self, slices: Sequence[ResourceSlice]) -> tuple[ResourceClaim, ...]:
        """The claims that hold devices of these slices."""
        found: dict[int, ResourceClaim] = {}
        for slice_ in slices:
            driver, pool = slice_.spec.driver, slice_.spec.pool.name
            for device in slice_.spec.devices or ():
                for claim in self._holding.get(DeviceID(driver, pool, device.name), ()):
                    found[id(claim)] = claim
        return tuple(found.values())

    # --- groups ------------------------------------------------------------------------------------------------------

    def split(self, nodes: Iterable[str], claims: Sequence[ResourceClaim]) -> list[list[str]]:
        """Return nodes in groups that have the same reasons for a refusal of these claims."""
        inventory, read = self.inventory, _attributes_read(self.inventory, claims)
        table = self._tables.pop(read, None) or _GroupTable()
        if len(self._tables) >= _MAX_TABLES:
            del self._tables[next(iter(self._tables))]
        self._tables[read] = table  # the most recent is last
        table.catch_up(inventory)
        groups: dict[int, list[str]] = {}
        for node in nodes:
            index = inventory.index_of(node)
            number = table.numbers[index]
            if number is None:
                key, is_known = self._key(node, read)
                number = table.keys.setdefault(key, len(table.keys))
                if is_known:
                    table.numbers[index] = number
            groups.setdefault(number, []).append(node)
        return list(groups.values())

    def _key(self, node: str, read: _Reads) -> tuple[Hashable, bool]:
        """The key that equivalent nodes have in common, and whether it stays the same until the node changes."""
        inventory, index = self.inventory, self.index
        view = inventory.view(node)
        values = tuple(_values(record.device, record.id.driver, read) for record in view.records)
        usable = {pool.id for pool in view.pools if pool.status is PoolStatus.USABLE}
        ignored = tuple(self._unusable(index.slices_of(pool), read) for pool in index.pools(node) if pool not in usable)
        return (view.layout.number, view.state(inventory.usage), values, ignored, view.failure), not ignored

    def _unusable(self, slices: Sequence[ResourceSlice], read: _Reads) -> Hashable:
        """The relevant part of an unusable pool, which the layout of a node does not contain."""
        newest = max(slice_.spec.pool.generation for slice_ in slices)
        return tuple(
            (slice_.spec.pool.generation == newest, slice_.spec.pool.resource_slice_count, self._devices(slice_, read))
            for slice_ in slices
        )

    def _devices(self, slice_: ResourceSlice, read: _Reads) -> Hashable:
        """The relevant part of the devices of a slice."""
        driver, pool = slice_.spec.driver, slice_.spec.pool.name
        return tuple(
            (
                _values(device, driver, read),
                tuple(capacity.value.nano for capacity in device.capacity.values()),
                bool(self._holding.get(DeviceID(driver, pool, device.name))),
            )
            for device in slice_.spec.devices or ()
        )


class _SliceIndex:
    """Index of the slices that affect what a node sees: all slices of every pool of which it sees a slice."""

    def __init__(self, inventory: Inventory) -> None:
        self.changes = inventory.slice_changes
        self._inventory = inventory
        self._by_pool: dict[PoolID, list[ResourceSlice]] = {}
        self._by_node: dict[str, dict[PoolID, None]] = {}
        self._everywhere: dict[PoolID, None] = {}
        for slice_ in inventory.slices.values():
            spec = slice_.spec
            pool = PoolID(spec.driver, spec.pool.name)
            self._by_pool.setdefault(pool, []).append(slice_)
            if spec.shared_counters:
                continue
            if spec.node_name:
                self._by_node.setdefault(spec.node_name, {})[pool] = None
            else:
                self._everywhere[pool] = None

    def pools(self, node: str) -> list[PoolID]:
        """The pools that affect what the node sees."""
        visible = (pool.id for pool in self._inventory.view(node).pools)
        return list(dict.fromkeys([*self._by_node.get(node, ()), *self._everywhere, *visible]))

    def slices_of(self, pool: PoolID) -> Sequence[ResourceSlice]:
        """All slices of a pool."""
        return self._by_pool.get(pool, ())

    def slices(self, node: str) -> tuple[ResourceSlice, ...]:
        """All slices of the pools that affect what the node sees."""
        return tuple(s for pool in self.pools(node) for s in self._by_pool[pool])


def _attributes_read(inventory: Inventory, claims: Sequence[ResourceClaim]) -> _Reads:
    """The attributes that selectors and constraints of the claims read."""
    found: set[str] = set()
    for claim in claims:
        for constraint in claim.spec.devices.constraints:
            for attribute in (constraint.match_attribute, constraint.distinct_attribute):
                if attribute:
                    found.add(attribute)
        for _, spec in requests_of(claim):
            class_ = inventory.classes.get(spec.device_class_name)
            if spec.derived_attributes and inventory.features.enabled("DRADerivedAttributes"):
                return None  # Values of derived attributes are shown with all devices that have them.
            for selector in (*(class_.spec.selectors if class_ else ()), *spec.selectors):
                program = compile_or_none(selector.cel.expression if selector.cel else "", inventory.features)
                if program is None:
                    continue
                if program.device_paths is None:
                    return None
                for path in program.device_paths:
                    if path[0] == "attributes":
                        if len(path) < 3:
                            return None
                        found.add(f"{path[1]}/{path[2]}")
    return frozenset(found)


def _values(device: Device, driver: str, read: _Reads) -> Hashable:
    attributes = device.attributes
    if read is None:
        return frozenset(attributes.items())
    return (driver, *(attributes.get(full) or attributes.get(bare) for full, bare in _keys(driver, read)))


@lru_cache(maxsize=64)
def _keys(driver: str, read: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The names of attributes, each with the one that the driver may use instead (see `constraints.find_attribute`)."""
    return tuple((name, name.removeprefix(f"{driver}/")) for name in read)
