"""What one node's devices come to: counted when something of the node has changed, and kept until it does again.

States of devices are those of ``allot free``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.layout import NodeView, available
from allotment.engine.cluster.taints import BLOCKING
from allotment.engine.cluster.usage import Usage
from allotment.exporter.cardinality_limits import label
from allotment.exporter.classes import Classes
from allotment.exporter.definitions import UNUSABLE
from allotment.exporter.device_shares import unnumbered
from allotment.exporter.holding import Held, held
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.tools.free import kind_of


class Amount(NamedTuple):
    """How much there is and how much of it is in use, in nano."""

    total: int = 0
    used: int = 0

    def plus(self, total: int, used: int) -> Amount:
        """With more."""
        return Amount(self.total + total, self.used + used)


@dataclass(slots=True)
class Tally:
    """Devices by driver and product (and state); amounts by driver, product and name; parts of the node by holder."""

    devices: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    classes: Counter[tuple[str, str]] = field(default_factory=Counter)
    tainted: Counter[tuple[str, str]] = field(default_factory=Counter)
    shares: Counter[tuple[str, str]] = field(default_factory=Counter)
    memory: dict[tuple[str, str], Amount] = field(default_factory=dict)
    capacity: dict[tuple[str, str, str], Amount] = field(default_factory=dict)
    counters: dict[tuple[str, str], Amount] = field(default_factory=dict)
    held: Held = field(default_factory=lambda: Held({}, 0))

    def add(self, other: Tally) -> None:
        """Take in the tally of other devices of the same place."""
        self.devices.update(other.devices)
        self.classes.update(other.classes)
        self.tainted.update(other.tainted)
        self.shares.update(other.shares)
        for name, amount in other.memory.items():
            self.memory[name] = self.memory.get(name, Amount()).plus(*amount)
        for capacity, amount in other.capacity.items():
            self.capacity[capacity] = self.capacity.get(capacity, Amount()).plus(*amount)
        for counter, amount in other.counters.items():
            self.counters[counter] = self.counters.get(counter, Amount()).plus(*amount)
        self.held = Held({**self.held.by, **other.held.by}, self.held.pieces + other.held.pieces)


def tally(
    view: NodeView, slots: Sequence[int], usage: Usage, classes: Classes, claims: Mapping[ObjectKey, ResourceClaim],
    counted: Container[PoolID] = (),
) -> Tally:  # fmt: skip
    """Count the devices in these slots of a view: the node's own, or those that several nodes reach.

    ``counted`` are pools whose counters are in another tally already.
    """
    found = Tally()
    records = [view.records[slot] for slot in slots]
    left = available(view.layout, view.state(usage))
    pools = {record.id[:2] for record in records}
    sets = {
        (pool.id, name): counter_set
        for pool in view.pools
        if pool.id in pools
        for name, counter_set in pool.counter_sets.items()
    }
    for record, slot, selected in zip(records, slots, classes.of(records), strict=True):
        driver, product = record.id.driver, label(kind_of(record.device))
        taken = usage.is_allocated(record.id)
        lacking = not taken and any(left[counter] < amount for counter, amount in view.layout.uses[slot])
        state = _state(record, usage, taken, lacking)
        found.devices[driver, product, state] += 1
        for name in selected:
            found.classes[name, state] += 1
        for effect in {taint.effect for taint in record.traits.taints}:
            found.tainted[driver, label(effect)] += 1
        _measure(found, record, product, usage, taken)
    for place, amount in zip(view.layout.counters, left, strict=True):
        pool = view.pools[place.pool].id
        if pool in pools and pool not in counted:
            key = (pool.driver, label(unnumbered(place.counter)))
            found.counters[key] = found.counters.get(key, Amount()).plus(place.limit, place.limit - amount)
    found.held = held(records, sets, usage, claims)
    return found


def unusable(found: Tally) -> Tally:
    """The same devices where nobody can have them, for their node is gone."""
    devices: Counter[tuple[str, str, str]] = Counter()
    for (driver, product, _), count in found.devices.items():
        devices[driver, product, UNUSABLE] += count
    return Tally(devices=devices)


def _state(record: DeviceRecord, usage: Usage, taken: bool, lacking: bool) -> str:
    traits = record.traits
    if taken:
        if not traits.shareable:
            return "in-use"
        remaining = usage.remaining(record.id, traits.limits)
        return "shared" if all(remaining[name] > 0 or not limit for name, limit in traits.limits.items()) else "full"
    if any(taint.effect in BLOCKING for taint in traits.taints):
        return "tainted"
    return "blocked" if lacking else "free"


def _measure(found: Tally, record: DeviceRecord, product: str, usage: Usage, taken: bool) -> None:
    """Shares and capacities."""
    id, traits = record.id, record.traits
    consumed = usage.consumed.get(id, {})
    if traits.shareable:
        found.shares[id.driver, product] += len(usage.shares.get(id, ()))
    for name, limit in traits.limits.items():
        used = consumed.get(name, 0) if traits.shareable else limit if taken else 0
        if traits.shareable:
            key = (id.driver, product, label(name))
            found.capacity[key] = found.capacity.get(key, Amount()).plus(limit, used)
        if name == "memory" and not traits.counters:
            whole = (id.driver, product)
            found.memory[whole] = found.memory.get(whole, Amount()).plus(limit, used)
