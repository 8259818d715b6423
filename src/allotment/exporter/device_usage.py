"""The usage of devices, counted by node; only nodes that changed are recounted.

The device states are those of ``allot free`` for pods that tolerate all taints of nodes which do not stand for a state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from allotment.engine.cluster.devices import DeviceRecord
from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.layout import NodeState, NodeView, available, excluded_by_groups
from allotment.engine.cluster.taints import BLOCKING
from allotment.engine.cluster.usage import Usage
from allotment.explanation.node_eligibility import eligibility_nodes, unschedulable_nodes
from allotment.exporter.cardinality_limits import label
from allotment.exporter.classes import Classes
from allotment.exporter.definitions import UNUSABLE
from allotment.exporter.device_shares import NodeHoldings, node_holdings, unnumbered
from allotment.exporter.state import ExporterState
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.tools.free import kind_of


class UsedAmount(NamedTuple):
    """The total and the used amount, in nano units."""

    total: int = 0
    used: int = 0

    def plus(self, total: int, used: int) -> UsedAmount:
        """Return the sum with another amount."""
        return UsedAmount(self.total + total, self.used + used)


@dataclass(slots=True)
class NodeUsage:
    """Devices by driver and product (and state); amounts by driver, product and name; the node's holders."""

    devices: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    classes: Counter[tuple[str, str]] = field(default_factory=Counter)
    tainted: Counter[tuple[str, str]] = field(default_factory=Counter)
    shares: Counter[tuple[str, str]] = field(default_factory=Counter)
    memory: dict[tuple[str, str], UsedAmount] = field(default_factory=dict)
    capacity: dict[tuple[str, str, str], UsedAmount] = field(default_factory=dict)
    counters: dict[tuple[str, str], UsedAmount] = field(default_factory=dict)
    held: NodeHoldings = field(default_factory=lambda: NodeHoldings({}, 0))

    def add(self, other: NodeUsage) -> None:
        """Add the usage of other devices of the same node."""
        self.devices.update(other.devices)
        self.classes.update(other.classes)
        self.tainted.update(other.tainted)
        self.shares.update(other.shares)
        for name, amount in other.memory.items():
            self.memory[name] = self.memory.get(name, UsedAmount()).plus(*amount)
        for capacity, amount in other.capacity.items():
            self.capacity[capacity] = self.capacity.get(capacity, UsedAmount()).plus(*amount)
        for counter, amount in other.counters.items():
            self.counters[counter] = self.counters.get(counter, UsedAmount()).plus(*amount)
        self.held = NodeHoldings({**self.held.by_holder, **other.held.by_holder}, self.held.pieces + other.held.pieces)


def count_usage(
    view: NodeView, slots: Sequence[int], usage: Usage, classes: Classes, claims: Mapping[ObjectKey, ResourceClaim],
    counted: Container[PoolID] = (),
) -> NodeUsage:  # fmt: skip
    """Count the devices in these slots of a view: the node's own, or those that several nodes can use.

    ``counted``: pools whose counters are already counted elsewhere.
    """
    found = NodeUsage()
    records = [view.records[slot] for slot in slots]
    node_state = view.state(usage)
    left = available(view.layout, node_state)
    excluded = excluded_by_groups(view.layout, node_state.groups)
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
        state = _state(record, usage, taken, lacking or bool(excluded >> slot & 1))
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
            found.counters[key] = found.counters.get(key, UsedAmount()).plus(place.limit, place.limit - amount)
    found.held = node_holdings(records, sets, usage, claims)
    return found


def as_unusable(found: NodeUsage) -> NodeUsage:
    """Return the same devices as unusable, because their node does not exist."""
    devices: Counter[tuple[str, str, str]] = Counter()
    for (driver, product, _), count in found.devices.items():
        devices[driver, product, UNUSABLE] += count
    return NodeUsage(devices=devices)


def as_unschedulable(found: NodeUsage) -> NodeUsage:
    """Return the same devices, the free ones as unschedulable, because no pod is scheduled to their node."""
    devices: Counter[tuple[str, str, str]] = Counter()
    classes: Counter[tuple[str, str]] = Counter()
    for (driver, product, state), count in found.devices.items():
        devices[driver, product, "unschedulable" if state == "free" else state] += count
    for (name, state), count in found.classes.items():
        classes[name, "unschedulable" if state == "free" else state] += count
    return replace(found, devices=devices, classes=classes)


def _state(record: DeviceRecord, usage: Usage, taken: bool, blocked: bool) -> str:
    traits = record.traits
    if taken:
        if not traits.shareable:
            return "in-use"
        remaining = usage.remaining(record.id, traits.limits)
        return "shared" if all(remaining[name] > 0 or not limit for name, limit in traits.limits.items()) else "full"
    if any(taint.effect in BLOCKING for taint in traits.taints):
        return "tainted"
    return "blocked" if blocked else "free"


def _measure(found: NodeUsage, record: DeviceRecord, product: str, usage: Usage, taken: bool) -> None:
    """Add shares and capacities."""
    id, traits = record.id, record.traits
    consumed = usage.consumed.get(id, {})
    if traits.shareable:
        found.shares[id.driver, product] += len(usage.shares.get(id, ()))
    for name, limit in traits.limits.items():
        used = consumed.get(name, 0) if traits.shareable else limit if taken else 0
        if traits.shareable:
            key = (id.driver, product, label(name))
            found.capacity[key] = found.capacity.get(key, UsedAmount()).plus(limit, used)
        if name == "memory" and not traits.counters:
            whole = (id.driver, product)
            found.memory[whole] = found.memory.get(whole, UsedAmount()).plus(limit, used)


class _CachedUsage(NamedTuple):
    """A node's usage, its inputs, and the slots of devices that other nodes can use as well."""

    view: NodeView
    usage: NodeState
    counts: NodeUsage
    far: tuple[int, ...]


class ClusterUsage:
    """The usage of all nodes."""

    def __init__(self, state: ExporterState) -> None:
        self._state = state
        self._classes = Classes((), state.features)
        self._classes_changed = -1
        self._cache: dict[str, _CachedUsage] = {}

    def by_node(self) -> dict[str, NodeUsage]:
        """Return usage by node, sorted by name; devices that several nodes can use are under an empty name."""
        state, inventory = self._state, self._state.inventory
        if self._classes_changed != state.classes_version:
            self._classes = Classes(inventory.classes.values(), state.features)
            self._classes_changed = state.classes_version
            self._cache.clear()
        self._cache = {node: self._usage_of(node) for node in sorted(inventory.nodes)}
        gone = state.missing_nodes()
        closed = unschedulable_nodes(eligibility_nodes(state.nodes.values(), ()), states_only=True)
        found = {
            node: as_unusable(known.counts)
            if node in gone
            else as_unschedulable(known.counts)
            if node in closed
            else known.counts
            for node, known in self._cache.items()
        }
        common = self._common()
        return found if common is None else {"": common, **found}

    def _usage_of(self, node: str) -> _CachedUsage:
        inventory = self._state.inventory
        view = inventory.view(node)
        usage = view.state(inventory.usage)
        known = self._cache.get(node)
        if known is not None and known.view is view and known.usage is usage:
            return known
        own: list[int] = []
        far: list[int] = []
        for slot, record in enumerate(view.records):
            if record.slice.spec.node_name == node:
                own.append(slot)
            elif view.layout.reach >> slot & 1:
                far.append(slot)
        return _CachedUsage(
            view, usage, count_usage(view, own, inventory.usage, self._classes, self._state.claims), tuple(far)
        )

    def _common(self) -> NodeUsage | None:
        """Count each device that several nodes can use once."""
        seen: set[object] = set()
        counted: set[PoolID] = set()
        common: NodeUsage | None = None
        for known in self._cache.values():
            slots = [slot for slot in known.far if known.view.records[slot].id not in seen]
            if not slots:
                continue
            records = [known.view.records[slot] for slot in slots]
            usage = count_usage(
                known.view, slots, self._state.inventory.usage, self._classes, self._state.claims, counted
            )
            seen.update(record.id for record in records)
            counted.update(PoolID(record.id.driver, record.id.pool) for record in records)
            if common is None:
                common = usage
            else:
                common.add(usage)
        return common
