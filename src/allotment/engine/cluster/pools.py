"""Gathering the pools that a node sees (KEP-4381), in the order in which allocation tries them.

Of each pool only the slices of the highest generation *seen on the node* count. A pool is complete if the node sees as
many slices as it announces; if not, all its slices are looked at, and a newer generation anywhere makes the pool
obsolete. A pool that is complete on the node is not checked for a newer generation elsewhere: upstream has it so.
Incomplete and invalid pools give no devices, but they stay in the list: ``allocationMode: All`` must fail on them, and
a reason may name them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, reaches
from allotment.model.resource import CounterSet, Device, ResourceSlice


class PoolStatus(Enum):
    """Whether devices of a pool can be allocated."""

    USABLE = "usable"
    INCOMPLETE = "incomplete"
    """Not as many slices exist as the pool announces: the driver is still publishing, or left some behind."""
    INVALID = "invalid"
    """The slices contradict each other."""


class Pool(NamedTuple):
    """A pool as one node sees it."""

    id: PoolID
    status: PoolStatus
    slices: tuple[ResourceSlice, ...] = ()
    """With devices that may reach the node, in allocation order; empty unless usable."""
    other_slices: tuple[ResourceSlice, ...] = ()
    """The pool's other device slices: what is allocated of them draws from the same counters."""
    counter_sets: Mapping[str, CounterSet] = {}
    reason: str = ""
    """Why it is invalid, in upstream's words."""
    generation: int = 0
    found: int = 0
    """Slices of that generation that exist."""
    announced: int = 0
    """``resourceSliceCount``"""
    binding: bool = False
    """Whether any device has binding conditions (KEP-5007): such pools are tried last."""

    @property
    def has_surplus(self) -> bool:
        """More slices exist than are announced. Upstream calls that incomplete, too, but nothing is still to come."""
        return self.found > self.announced


class PoolRules(NamedTuple):
    """The switches that change how pools are gathered."""

    partitionable: bool
    """DRAPartitionableDevices is on."""
    counters_everywhere: bool
    """Slices with shared counters are seen on every node (until 1.36), not only through their pool (1.37)."""


class UnusableSlice(ValueError):
    """Raised when a node selector of a slice or device cannot be used; fatal for every node that looks at it."""


def counts_everywhere(slice_: ResourceSlice, rules: PoolRules) -> bool:
    """Whether the slice belongs to what every node sees, because of its shared counters."""
    return bool(slice_.spec.shared_counters) and rules.counters_everywhere


def is_relevant(slice_: ResourceSlice, node: NodeFacts, rules: PoolRules) -> bool:
    """Whether a slice counts for the node; ``UnusableSlice`` if that cannot be told."""
    spec = slice_.spec
    if not rules.partitionable and (spec.per_device_node_selection is not None or spec.shared_counters):
        return False
    if counts_everywhere(slice_, rules):
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        try:
            return reaches(node, spec.node_name, spec.all_nodes, spec.node_selector)
        except UnusableNodeSelector as error:
            name = slice_.metadata.name
            raise UnusableSlice(f"failed to perform node selection for slice {name}: {error}") from error
    if spec.per_device_node_selection:
        return any(device_reaches(node, device, slice_) for device in spec.devices or ())
    return False


def device_reaches(node: NodeFacts, device: Device, slice_: ResourceSlice) -> bool:
    """Whether a device of a slice with per-device node selection is for the node; ``UnusableSlice`` as above."""
    try:
        return reaches(node, device.node_name, device.all_nodes, device.node_selector)
    except UnusableNodeSelector as error:
        where = f"device {device.name} in slice {slice_.metadata.name}"
        raise UnusableSlice(f"failed to perform node selection for {where}: {error}") from error


def gather_pool(
    id: PoolID, relevant: Sequence[ResourceSlice], every: Iterable[ResourceSlice], rules: PoolRules
) -> Pool | None:
    """The pool as made of the slices relevant for a node, or ``None`` if it has none or is obsolete.

    ``every`` are all slices of the pool, wherever they belong.
    """
    if not relevant:
        return None
    generation = max(s.spec.pool.generation for s in relevant)
    seen = [s for s in relevant if s.spec.pool.generation == generation]
    announced = seen[0].spec.pool.resource_slice_count
    rest: list[ResourceSlice] = []
    found = len(seen)
    if found != announced:
        everything = list(every)
        if any(s.spec.pool.generation > generation for s in everything):
            return None
        everything = [s for s in everything if s.spec.pool.generation == generation]
        found = len(everything)
        if found != announced:
            return Pool(id, PoolStatus.INCOMPLETE, generation=generation, found=found, announced=announced)
        names = {s.metadata.name for s in seen}
        rest = [s for s in everything if s.metadata.name not in names]
    return _build(
        Pool(id, PoolStatus.USABLE, generation=generation, found=found, announced=announced), seen, rest, rules
    )


def _build(pool: Pool, seen: list[ResourceSlice], rest: list[ResourceSlice], rules: PoolRules) -> Pool:
    """Check a complete pool and put its parts in order."""
    seen = sorted(seen, key=attrgetter("metadata.name"))
    if not rules.partitionable:
        return _invalid(pool, _duplicate_device(seen)) or _usable(pool, seen, [], {})
    devices = [s for s in seen if not s.spec.shared_counters]
    with_counters = [s for s in seen if s.spec.shared_counters]
    if not rules.counters_everywhere:
        with_counters += [s for s in rest if s.spec.shared_counters]
        rest = [s for s in rest if not s.spec.shared_counters]
    counter_sets: dict[str, CounterSet] = {}
    problem = _duplicate_device(devices)
    for counter_set in (c for s in with_counters for c in s.spec.shared_counters or ()):
        if counter_set.name in counter_sets:
            problem = problem or f"duplicate counter set name {counter_set.name}"
        counter_sets[counter_set.name] = counter_set
    problem = problem or _dangling_counter(devices, counter_sets) or _dangling_counter(rest, counter_sets)
    return _invalid(pool, problem) or _usable(pool, devices, rest, counter_sets)


def _invalid(pool: Pool, problem: str) -> Pool | None:
    return pool._replace(status=PoolStatus.INVALID, reason=problem) if problem else None


def _usable(
    pool: Pool, devices: list[ResourceSlice], rest: list[ResourceSlice], counter_sets: dict[str, CounterSet]
) -> Pool:
    binding = any(d.binding_conditions for s in devices for d in s.spec.devices or ())
    return pool._replace(slices=tuple(devices), other_slices=tuple(rest), counter_sets=counter_sets, binding=binding)


def _duplicate_device(slices: Iterable[ResourceSlice]) -> str:
    names: set[str] = set()
    for device in (d for s in slices for d in s.spec.devices or ()):
        if device.name in names:
            return f"duplicate device name {device.name}"
        names.add(device.name)
    return ""


def _dangling_counter(slices: Iterable[ResourceSlice], counter_sets: Mapping[str, CounterSet]) -> str:
    for device in (d for s in slices for d in s.spec.devices or ()):
        for use in device.consumes_counters:
            counter_set = counter_sets.get(use.counter_set)
            if counter_set is None:
                return f"counter set {use.counter_set} not found"
            for name in use.counters:
                if name not in counter_set.counters:
                    return f"counter {name} not found in counter set {use.counter_set}"
    return ""


def sort_pools(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    """Pools in the order of allocation: by driver and name; those with binding conditions after all others.

    Incomplete and invalid pools count as having none: their devices are not looked at.
    """
    return tuple(sorted(pools, key=lambda pool: (pool.binding, pool.id)))
