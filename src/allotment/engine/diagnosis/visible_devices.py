"""What one node sees: its devices in allocation order, and the pools that are withheld from it, with the reason.

The engine drops what does not count and is done; here it is kept with why, because that may be the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from allotment.engine.claims.capacity import consumption
from allotment.engine.cluster.devices import Traits
from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, reaches
from allotment.engine.cluster.pools import Pool, PoolStatus
from allotment.engine.diagnosis.holders import Holder, Holdings
from allotment.engine.diagnosis.published_names import kind_of
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequirements, Device, ResourceSlice


@dataclass(frozen=True, slots=True)
class Seen:
    """A device and where it is published; ``traits`` have the taints of rules, too."""

    id: DeviceID
    device: Device
    traits: Traits

    @property
    def driver(self) -> str:
        """The driver that publishes it."""
        return self.id.driver

    @property
    def kind(self) -> str:
        """What it is, in its driver's words; empty if they say nothing."""
        return kind_of(self.device, self.driver)

    @property
    def name(self) -> str:
        """The name within the pool."""
        return self.id.device


@dataclass(frozen=True, slots=True)
class Withheld:
    """A pool whose devices the node cannot have now. ``why`` is a reason code; ``devices`` are those it would have.

    ``surplus``: an incomplete pool has more slices than it announces, not fewer.
    """

    pool: PoolID
    why: str
    text: str
    devices: tuple[Seen, ...]
    surplus: bool = False


@dataclass(slots=True)
class View:
    """The node's devices, the withheld pools, and the counters of every pool in sight (nano units)."""

    devices: tuple[Seen, ...]
    withheld: tuple[Withheld, ...]
    counters: Mapping[PoolID, Mapping[str, Mapping[str, int]]]
    consumers: Mapping[PoolID, tuple[Device, ...]]
    milli: bool
    _used: dict[PoolID, dict[tuple[str, str], int]] = field(default_factory=dict)
    _used_by: Holdings | None = None

    def consumed(self, device: Device, wanted: CapacityRequirements | None) -> dict[str, Quantity] | None:
        """What an allocation would take of the device's capacities; None if the device can never give it."""
        return consumption(device, wanted.requests if wanted is not None else None, self.milli)

    def share_fits(self, seen: Seen, wanted: CapacityRequirements | None, held: Holdings) -> bool:
        """Whether a shareable device has enough of every capacity left; a device that is not shareable has."""
        if not seen.device.allow_multiple_allocations or seen.id not in held.shares:
            return True
        taken = self.consumed(seen.device, wanted)
        if taken is None:
            return False
        for name, amount in taken.items():
            used = sum(consumed.get(name, 0) for _, consumed in held.shares[seen.id])
            if used + amount.nano > seen.device.capacity[name].value.nano:
                return False
        return True

    def lacking(self, seen: Seen, held: Holdings) -> list[tuple[str, str, int, int]]:
        """Counters of which too little is left for the device: set, counter, left, needed (nano units).

        What the device consumes itself, being held, is not counted against it.
        """
        pool = PoolID(seen.id.driver, seen.id.pool)
        used = self._consumption(pool, held)
        own = held.taken(seen.id)
        missing = []
        for consumed in seen.device.consumes_counters:
            totals = self.counters.get(pool, {}).get(consumed.counter_set, {})
            for counter, amount in consumed.counters.items():
                need = amount.value.nano
                left = totals.get(counter, 0) - used.get((consumed.counter_set, counter), 0) + (need if own else 0)
                if need > left:
                    missing.append((consumed.counter_set, counter, left, need))
        return missing

    def blocking(self, seen: Seen, held: Holdings) -> tuple[Holder, ...] | None:
        """Who holds the counters that the device lacks; None if it lacks none."""
        missing = self.lacking(seen, held)
        if not missing:
            return None
        wanted = {(set_, counter) for set_, counter, _, _ in missing}
        pool = PoolID(seen.id.driver, seen.id.pool)
        found: dict[Holder, None] = {}
        for device in self.consumers.get(pool, ()):
            id_ = DeviceID(*pool, device.name)
            takes = {(c.counter_set, counter) for c in device.consumes_counters for counter in c.counters}
            if id_ != seen.id and takes & wanted and held.taken(id_):
                found.update(dict.fromkeys(held.of(id_)))
        return tuple(found)

    def _consumption(self, pool: PoolID, held: Holdings) -> dict[tuple[str, str], int]:
        if self._used_by is not held:
            self._used, self._used_by = {}, held
        used = self._used.get(pool)
        if used is None:
            used = {}
            for device in self.consumers.get(pool, ()):
                if not held.taken(DeviceID(*pool, device.name)):
                    continue
                for consumed in device.consumes_counters:
                    for counter, amount in consumed.counters.items():
                        key = (consumed.counter_set, counter)
                        used[key] = used.get(key, 0) + amount.value.nano
            self._used[pool] = used
        return used


def look(inventory: Inventory, node: str) -> View:
    """Gather what ``node`` sees, and what it would see if every pool counted."""
    view = inventory.view(node)
    reached = view.layout.reach
    devices = tuple(
        Seen(record.id, record.device, record.traits) for slot, record in enumerate(view.records) if reached >> slot & 1
    )
    pools = {pool.id: pool for pool in view.pools}
    counters: dict[PoolID, dict[str, dict[str, int]]] = {}
    consumers: dict[PoolID, tuple[Device, ...]] = {}
    for pool in view.pools:
        counters[pool.id] = {
            name: {counter: amount.value.nano for counter, amount in set_.counters.items()}
            for name, set_ in pool.counter_sets.items()
        }
        consumers[pool.id] = tuple(
            d for s in (*pool.slices, *pool.other_slices) for d in s.spec.devices or () if d.consumes_counters
        )
    withheld = []
    for id, slices in _pools_of(inventory).items():
        found = pools.get(id)
        if found is not None and found.status is PoolStatus.USABLE:
            continue
        mine = [s for s in slices if _targets(s, inventory.nodes[node])]
        if found is None and not mine:
            continue
        newest = max((s.spec.pool.generation for s in mine), default=0)
        seen = tuple(
            Seen(record.id, record.device, record.traits)
            for s in mine
            if s.spec.pool.generation == newest
            for record in inventory.records(s)
        )
        why, text = _why(id, found, slices, newest)
        withheld.append(Withheld(id, why, text, seen, found is not None and found.has_surplus))
    milli = inventory.features.enabled("DRAFractionalCapacityRange")
    return View(devices, tuple(withheld), counters, consumers, milli)


def _pools_of(inventory: Inventory) -> dict[PoolID, list[ResourceSlice]]:
    pools: dict[PoolID, list[ResourceSlice]] = {}
    for slice_ in inventory.slices.values():
        pools.setdefault(PoolID(slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return dict(sorted(pools.items()))


def _targets(slice_: ResourceSlice, node: NodeFacts) -> bool:
    """Whether the slice offers the node a device."""
    spec = slice_.spec
    try:
        if spec.per_device_node_selection:
            return any(reaches(node, d.node_name, d.all_nodes, d.node_selector) for d in spec.devices or ())
        return not spec.shared_counters and reaches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    except UnusableNodeSelector:
        return False


def _why(id: PoolID, pool: Pool | None, slices: list[ResourceSlice], generation: int) -> tuple[str, str]:
    if pool is None:
        newest = max(s.spec.pool.generation for s in slices)
        text = f"pool {id}: the slices for this node are of generation {generation}, the newest is {newest}"
        return "pool-superseded", text
    if pool.status is PoolStatus.INCOMPLETE and pool.has_surplus:
        counts = f"{pool.found} are published, only {pool.announced} announced (a driver bug, or leftovers)"
        return "pool-incomplete", f"pool {id}: its slices contradict each other: {counts}"
    if pool.status is PoolStatus.INCOMPLETE:
        return "pool-incomplete", f"pool {id}: {pool.found} of {pool.announced} slices are published"
    return "pool-invalid", f"pool {id}: {pool.reason}"
