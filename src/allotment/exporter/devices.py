"""Metrics of devices, shares and counters of all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.pools import PoolStatus
from allotment.exporter.cardinality_limits import label
from allotment.exporter.definitions import (
    ALLOCATED_TWICE,
    ALWAYS_EXPORTED,
    CAPACITY,
    CAPACITY_USED,
    CLASS_DEVICES,
    COUNTERS,
    COUNTERS_USED,
    DEVICES,
    MEMORY,
    MEMORY_USED,
    MISSING_DEVICES,
    POOLS,
    SHARES,
    SLICES,
    TAINTED_DEVICES,
    UNUSABLE,
)  # fmt: skip
from allotment.exporter.device_usage import NodeUsage, UsedAmount
from allotment.exporter.metric import Family, Metric, Sample
from allotment.exporter.state import ExporterState
from allotment.model.contested_claims import is_contested
from allotment.model.resource import ResourceSlice
from allotment.tools.free import kind_of


class PoolReport(NamedTuple):
    """One pool. ``node``: its node, empty if several nodes can use it; ``unusable``: if Kubernetes ignores the pool,
    its devices by product.
    """

    id: PoolID
    node: str
    status: PoolStatus
    current: int
    old: int
    unusable: Counter[str]


def pools(state: ExporterState) -> Iterator[PoolReport]:
    """Yield a report for every pool."""
    for id, by_name in state.pools.items():
        slices = list(by_name.values())
        newest = max(slice_.spec.pool.generation for slice_ in slices)
        current = [slice_ for slice_ in slices if slice_.spec.pool.generation == newest]
        named = {slice_.spec.node_name or "" for slice_ in current}
        node = named.pop() if len(named) == 1 else ""
        status = _status(state, id, node, current)
        devices = (device for slice_ in current for device in slice_.spec.devices or ())
        unusable = Counter(() if status is PoolStatus.USABLE else (label(kind_of(device)) for device in devices))
        yield PoolReport(id, node, status, len(current), len(slices) - len(current), unusable)


def _status(state: ExporterState, id: PoolID, node: str, current: list[ResourceSlice]) -> PoolStatus:
    if any(slice_.spec.pool.resource_slice_count != len(current) for slice_ in current):
        return PoolStatus.INCOMPLETE
    # Contradictions between slices are the same on every node that sees all of them.
    for name in (node,) if node else state.inventory.nodes:
        view = state.inventory.view(name)
        if view.failure:
            return PoolStatus.INVALID
        for pool in view.pools:
            if pool.id == id:
                return pool.status
    return PoolStatus.USABLE


_NANO: Final = 1e9


def devices(state: ExporterState, usages: Mapping[str, NodeUsage]) -> Iterator[Family]:
    """Yield the metric families of devices and pools, shares and counters."""
    published = Counter[tuple[str, ...]]()
    by_class = Counter[tuple[str, ...]]()
    for node, usage in usages.items():
        for (driver, product, state_name), count in usage.devices.items():
            published[node, driver, product, state_name] = count
        for (name, state_name), count in usage.classes.items():
            by_class[node, name, state_name] = count
    usable = Counter[tuple[str, ...]]()
    slices = Counter[tuple[str, ...]]()
    drivers = set[str]()
    for pool in pools(state):
        drivers.add(pool.id.driver)
        usable[pool.node, pool.id.driver, pool.status.value] += 1
        slices[pool.node, pool.id.driver, "current"] += pool.current
        if pool.old:
            slices[pool.node, pool.id.driver, "old"] += pool.old
        for product, count in pool.unusable.items():
            published[pool.node, pool.id.driver, product, UNUSABLE] += count
    yield Family(DEVICES, _with_zeros(published, ALWAYS_EXPORTED))
    yield Family(CLASS_DEVICES, _with_zeros(by_class, ALWAYS_EXPORTED))
    tainted = {(node, *of): count for node, usage in usages.items() for of, count in usage.tainted.items()}
    yield Family(TAINTED_DEVICES, [Sample(labels, tainted[labels]) for labels in sorted(tainted)])
    twice, missing = _inconsistencies(state)
    drivers.update(missing)
    yield Family(ALLOCATED_TWICE, [Sample((driver,), twice[driver]) for driver in sorted(drivers)])
    yield Family(MISSING_DEVICES, [Sample((driver,), missing[driver]) for driver in sorted(drivers)])
    yield Family(POOLS, _with_zeros(usable, (PoolStatus.USABLE.value,)))
    yield Family(SLICES, [Sample(labels, slices[labels]) for labels in sorted(slices)])
    shares = {(node, *of): count for node, usage in usages.items() for of, count in usage.shares.items()}
    yield Family(SHARES, [Sample(labels, shares[labels]) for labels in sorted(shares)])
    yield from _amounts(MEMORY, MEMORY_USED, {(n, *of): a for n, t in usages.items() for of, a in t.memory.items()})
    yield from _amounts(
        CAPACITY, CAPACITY_USED, {(n, *of): a for n, t in usages.items() for of, a in t.capacity.items()}
    )
    yield from _amounts(
        COUNTERS, COUNTERS_USED, {(n, *of): a for n, t in usages.items() for of, a in t.counters.items()}
    )


def _with_zeros(counts: Mapping[tuple[str, ...], int], always: tuple[str, ...]) -> list[Sample]:
    """Return samples whose last label is a state; states in ``always`` are included with zero."""
    every = {**{(*labels[:-1], state): 0 for labels in counts for state in always}, **counts}
    return [Sample(labels, every[labels]) for labels in sorted(every)]


def _amounts(total: Metric, used: Metric, amounts: Mapping[tuple[str, ...], UsedAmount]) -> Iterator[Family]:
    order = sorted(amounts)
    yield Family(total, [Sample(labels, amounts[labels].total / _NANO) for labels in order])
    yield Family(used, [Sample(labels, amounts[labels].used / _NANO) for labels in order])


def _inconsistencies(state: ExporterState) -> tuple[Counter[str], Counter[str]]:
    """Return, by driver, devices with an exclusive and another holder, and devices that are held but not published."""
    usage = state.inventory.usage
    twice: Counter[str] = Counter()
    for device, whole in usage.exclusive.items():
        holders = {key for key in usage.holders(device) if not is_contested(state.claims.get(key))}
        if len(holders) > 1 and not holders.isdisjoint(whole):
            twice[device.driver] += 1
    held = {**usage.exclusive, **usage.shares}
    return twice, Counter(device.driver for device in held if not state.publishes(device))
