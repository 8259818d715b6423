"""The devices that a node sees, in allocation order, and the pools that it cannot use, with the reason.

The engine drops unusable pools; here they are kept with the reason, because they may be the cause of a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from allotment.engine.claims.capacity import CapacityError, CapacityRules, consumption
from allotment.engine.cluster.devices import Traits
from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.layout import NO_MEMBERS, common_groups, group_mask
from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, reaches
from allotment.engine.cluster.pools import Pool, PoolStatus, ignored_groups
from allotment.engine.diagnosis.holders import ClaimHolder, HeldDevices
from allotment.engine.diagnosis.published_names import kind_of
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequirements, Device, ResourceSlice


@dataclass(frozen=True, slots=True)
class VisibleDevice:
    """A device with its ID; ``traits`` include the taints of rules.

    ``is_supported``: whether the node supports the operations that the device's slice skips.
    """

    id: DeviceID
    device: Device
    traits: Traits
    is_supported: bool = True

    @property
    def driver(self) -> str:
        """The driver that publishes the device."""
        return self.id.driver

    @property
    def kind(self) -> str:
        """The product and profile of the device; empty if they are not published."""
        return kind_of(self.device, self.driver)

    @property
    def name(self) -> str:
        """The name within the pool."""
        return self.id.device


@dataclass(frozen=True, slots=True)
class UnavailablePool:
    """A pool whose devices the node cannot use now. ``code`` is a reason code; ``devices`` are the devices of the pool.

    ``has_surplus``: an incomplete pool has more slices than it announces, not fewer.
    """

    pool: PoolID
    code: str
    text: str
    devices: tuple[VisibleDevice, ...]
    has_surplus: bool = False


class GroupConflict(NamedTuple):
    """The allocated devices of a counter set whose compatibility groups exclude a device, and their holders."""

    counter_set: str
    groups: tuple[str, ...]
    """Groups of the excluded device."""
    peers: tuple[tuple[Device, tuple[str, ...], ClaimHolder], ...]


@dataclass(slots=True)
class VisibleDevices:
    """The node's devices, its unusable pools, and the counters of every visible pool (nano units)."""

    devices: tuple[VisibleDevice, ...]
    unavailable_pools: tuple[UnavailablePool, ...]
    counters: Mapping[PoolID, Mapping[str, Mapping[str, int]]]
    consumers: Mapping[PoolID, tuple[Device, ...]]
    rules: CapacityRules
    _used: dict[PoolID, dict[tuple[str, str], int]] = field(default_factory=dict)
    _used_by: HeldDevices | None = None

    def consumed(self, device: Device, wanted: CapacityRequirements | None) -> dict[str, Quantity] | None:
        """The capacity that an allocation would consume; None if the device can never provide it."""
        try:
            return consumption(device, wanted.requests if wanted is not None else None, self.rules)
        except CapacityError:
            return None

    def share_fits(self, visible: VisibleDevice, wanted: CapacityRequirements | None, held: HeldDevices) -> bool:
        """Whether a shareable device has enough of every capacity left; always true for other devices."""
        if not visible.device.allow_multiple_allocations or visible.id not in held.shares:
            return True
        taken = self.consumed(visible.device, wanted)
        if taken is None:
            return False
        for name, amount in taken.items():
            used = sum(consumed.get(name, 0) for _, consumed in held.shares[visible.id])
            if used + amount.nano > visible.device.capacity[name].value.nano:
                return False
        return True

    def missing_counters(self, visible: VisibleDevice, held: HeldDevices) -> list[tuple[str, str, int, int]]:
        """Counters with too little left for the device: set, counter, left, needed (nano units).

        The consumption of the device itself, if it is held, is not counted.
        """
        pool = PoolID(visible.id.driver, visible.id.pool)
        used = self._consumption(pool, held)
        own = held.is_allocated(visible.id)
        missing = []
        for consumed in visible.device.consumes_counters:
            totals = self.counters.get(pool, {}).get(consumed.counter_set, {})
            for counter, amount in consumed.counters.items():
                need = amount.value.nano
                left = totals.get(counter, 0) - used.get((consumed.counter_set, counter), 0) + (need if own else 0)
                if need > left:
                    missing.append((consumed.counter_set, counter, left, need))
        return missing

    def counter_holders(self, visible: VisibleDevice, held: HeldDevices) -> tuple[ClaimHolder, ...] | None:
        """The claims that consume the counters that the device needs; None if no counter is missing."""
        missing = self.missing_counters(visible, held)
        if not missing:
            return None
        wanted = {(set_, counter) for set_, counter, _, _ in missing}
        pool = PoolID(visible.id.driver, visible.id.pool)
        found: dict[ClaimHolder, None] = {}
        for device in self.consumers.get(pool, ()):
            id_ = DeviceID(*pool, device.name)
            takes = {(c.counter_set, counter) for c in device.consumes_counters for counter in c.counters}
            if id_ != visible.id and takes & wanted and held.is_allocated(id_):
                found.update(dict.fromkeys(held.holders_of(id_)))
        return tuple(found)

    def group_conflict(self, visible: VisibleDevice, held: HeldDevices) -> GroupConflict | None:
        """The first counter set in which the compatibility groups of allocated devices exclude the device, if any.

        A device that is allocated itself is not excluded: it is in use, or only gets a further share.
        """
        if not visible.traits.groups or held.is_allocated(visible.id):
            return None
        pool = PoolID(visible.id.driver, visible.id.pool)
        for member in visible.traits.groups:
            peers: list[tuple[Device, tuple[str, ...], ClaimHolder]] = []
            common = NO_MEMBERS
            bits: dict[str, int] = {}
            for device in self.consumers.get(pool, ()):
                id_ = DeviceID(*pool, device.name)
                for use in device.consumes_counters if held.is_allocated(id_) else ():
                    if use.counter_set == member.counter_set:
                        common = common_groups(common, group_mask(use.compatibility_groups, bits))
                        peers.extend((device, use.compatibility_groups, holder) for holder in held.holders_of(id_))
            if not common & group_mask(member.groups, bits):
                return GroupConflict(member.counter_set, member.groups, tuple(peers))
        return None

    def _consumption(self, pool: PoolID, held: HeldDevices) -> dict[tuple[str, str], int]:
        if self._used_by is not held:
            self._used, self._used_by = {}, held
        used = self._used.get(pool)
        if used is None:
            used = {}
            for device in self.consumers.get(pool, ()):
                if not held.is_allocated(DeviceID(*pool, device.name)):
                    continue
                for consumed in device.consumes_counters:
                    for counter, amount in consumed.counters.items():
                        key = (consumed.counter_set, counter)
                        used[key] = used.get(key, 0) + amount.value.nano
            self._used[pool] = used
        return used


def visible_devices(inventory: Inventory, node: str) -> VisibleDevices:
    """The devices that ``node`` sees, and those that it would see if every pool were usable."""
    view = inventory.view(node)
    reached = view.layout.reach
    devices = tuple(
        VisibleDevice(record.id, record.device, record.traits, bool(view.layout.supported >> slot & 1))
        for slot, record in enumerate(view.records)
        if reached >> slot & 1
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
    unavailable = []
    for id, slices in _pools_of(inventory).items():
        found = pools.get(id)
        if found is not None and found.status is PoolStatus.USABLE:
            continue
        own = [s for s in slices if _targets(s, inventory.nodes[node])]
        if found is None and not own:
            continue
        newest = max((s.spec.pool.generation for s in own), default=0)
        visible = tuple(
            VisibleDevice(record.id, record.device, record.traits)
            for s in own
            if s.spec.pool.generation == newest
            for record in inventory.records(s)
        )
        code, text = _unusable_reason(id, found, slices, newest, inventory.features)
        unavailable.append(UnavailablePool(id, code, text, visible, found is not None and found.has_surplus))
    rules = CapacityRules.of(inventory.features)
    return VisibleDevices(devices, tuple(unavailable), counters, consumers, rules)


def _pools_of(inventory: Inventory) -> dict[PoolID, list[ResourceSlice]]:
    pools: dict[PoolID, list[ResourceSlice]] = {}
    for slice_ in inventory.slices.values():
        pools.setdefault(PoolID(slice_.spec.driver, slice_.spec.pool.name), []).append(slice_)
    return dict(sorted(pools.items()))


def _targets(slice_: ResourceSlice, node: NodeFacts) -> bool:
    """Whether the slice provides a device for the node."""
    spec = slice_.spec
    try:
        if spec.per_device_node_selection:
            return any(reaches(node, d.node_name, d.all_nodes, d.node_selector) for d in spec.devices or ())
        return not spec.shared_counters and reaches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    except UnusableNodeSelector:
        return False


def _unusable_reason(
    id: PoolID, pool: Pool | None, slices: list[ResourceSlice], generation: int, features: Features
) -> tuple[str, str]:
    ignored = ignored_groups(slices, features)
    if ignored and (pool is None or pool.status is PoolStatus.INCOMPLETE):
        return "pool-incomplete", f"pool {id}: {ignored}"
    if pool is None:
        newest = max(s.spec.pool.generation for s in slices)
        text = (
            f"pool {id}: the slices for this node are of generation {generation}, but the newest generation is {newest}"
        )
        return "pool-superseded", text
    if pool.status is PoolStatus.INCOMPLETE and pool.has_surplus:
        counts = f"{pool.found} slices are published, but resourceSliceCount is {pool.announced}"
        return "pool-incomplete", f"pool {id}: {counts} (a driver bug, or leftover slices)"
    if pool.status is PoolStatus.INCOMPLETE:
        return "pool-incomplete", f"pool {id}: only {pool.found} of {pool.announced} slices published"
    return "pool-invalid", f"pool {id}: {pool.reason}"
