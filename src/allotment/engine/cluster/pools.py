"""Gathering of the pools that a node sees (KEP-4381), in allocation order.

Of each pool only the slices of the highest generation *seen on the node* count. A pool is complete if the node sees as
many slices as it announces; otherwise all its slices are checked, and a newer generation anywhere makes the pool
obsolete. A pool that is complete on the node is not checked for a newer generation elsewhere, as in upstream.
Incomplete and invalid pools provide no devices, but they remain in the list: ``allocationMode: All`` must fail on them,
and reasons name them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from operator import attrgetter
from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, reaches
from allotment.engine.release import release
from allotment.model.features import Features
from allotment.model.resource import CounterSet, Device, ResourceSlice
from allotment.phrases import counted


class PoolStatus(Enum):
    """Whether devices of a pool can be allocated."""

    USABLE = "usable"
    INCOMPLETE = "incomplete"
    """The number of slices differs from the announced one: the driver is still publishing, or left old slices."""
    INVALID = "invalid"
    """The slices contradict each other."""


class Pool(NamedTuple):
    """A pool as one node sees it."""

    id: PoolID
    status: PoolStatus
    slices: tuple[ResourceSlice, ...] = ()
    """Slices with devices that may reach the node, in allocation order; empty unless the pool is usable."""
    other_slices: tuple[ResourceSlice, ...] = ()
    """The pool's other device slices, whose allocated devices consume the same counters."""
    counter_sets: Mapping[str, CounterSet] = {}
    reason: str = ""
    """The reason why the pool is invalid, with upstream's text."""
    generation: int = 0
    found: int = 0
    """Number of existing slices of that generation."""
    announced: int = 0
    """``resourceSliceCount``"""
    binding: bool = False
    """Whether any device has binding conditions (KEP-5007): such pools are tried last."""

    @property
    def has_surplus(self) -> bool:
        """Whether more slices exist than announced. Upstream calls that incomplete, too, but waiting does not help."""
        return self.found > self.announced


class PoolRules(NamedTuple):
    """The features and release differences that affect the gathering of pools."""

    partitionable: bool
    """Whether DRAPartitionableDevices is on."""
    counters_everywhere: bool
    """Whether slices with shared counters count on every node (until 1.36), not only through their pool (1.37)."""
    ignores_groups: bool = False
    """Whether slices with compatibility groups are ignored (from 1.37, while DRADeviceCompatibilityGroups is off).

    Their pool is then incomplete, so that none of its devices is allocated."""

    @staticmethod
    def of(features: Features) -> PoolRules:
        """The rules of a cluster with these features."""
        of_release = release(features)
        return PoolRules(
            features.enabled("DRAPartitionableDevices"),
            of_release.counters_everywhere,
            of_release.refuses_disabled_fields and not features.enabled("DRADeviceCompatibilityGroups"),
        )

    def ignores(self, slice_: ResourceSlice) -> bool:
        """Whether the slice is ignored because of its compatibility groups."""
        return self.ignores_groups and has_compatibility_groups(slice_)


class UnusableSlice(ValueError):
    """Raised when a node selector of a slice or device is invalid; fatal on every node that evaluates it."""


def counts_everywhere(slice_: ResourceSlice, rules: PoolRules) -> bool:
    """Whether every node sees the slice because of its shared counters."""
    return bool(slice_.spec.shared_counters) and rules.counters_everywhere


def has_compatibility_groups(slice_: ResourceSlice) -> bool:
    """Whether any device of the slice has compatibility groups."""
    return any(use.compatibility_groups for device in slice_.spec.devices or () for use in device.consumes_counters)


def ignored_groups(slices: Iterable[ResourceSlice], features: Features) -> str:
    """The reason why slices of a pool are ignored because of their compatibility groups; empty if none is."""
    rules = PoolRules.of(features)
    ignored = sum(rules.ignores(slice_) for slice_ in slices)
    if not ignored:
        return ""
    devices = f"{counted(ignored, 'slice has', 'slices have')} devices with compatibility groups"
    return f"{devices}, but the DRADeviceCompatibilityGroups feature is disabled"


def is_relevant(slice_: ResourceSlice, node: NodeFacts, rules: PoolRules) -> bool:
    """Whether a slice counts for the node; ``UnusableSlice`` if its node selector is invalid."""
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
    """Whether the node can use a device of a slice with per-device node selection.

    ``UnusableSlice`` if the device's node selector is invalid.
    """
    try:
        return reaches(node, device.node_name, device.all_nodes, device.node_selector)
    except UnusableNodeSelector as error:
        where = f"device {device.name} in slice {slice_.metadata.name}"
        raise UnusableSlice(f"failed to perform node selection for {where}: {error}") from error


def gather_pool(
    id: PoolID,
    relevant: Sequence[ResourceSlice],
    every: Iterable[ResourceSlice],
    rules: PoolRules,
    ignored: Collection[str] = (),
) -> Pool | None:
    """The pool as seen by a node with these relevant slices, or ``None`` if there are none or the pool is obsolete.

    ``every`` are all slices of the pool, on all nodes. ``ignored``: the names of those that ``rules`` ignore; they are
    not relevant.
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
        everything = [s for s in everything if s.spec.pool.generation == generation and s.metadata.name not in ignored]
        found = len(everything)
        if found != announced:
            return Pool(id, PoolStatus.INCOMPLETE, generation=generation, found=found, announced=announced)
        names = {s.metadata.name for s in seen}
        rest = [s for s in everything if s.metadata.name not in names]
    return _build(
        Pool(id, PoolStatus.USABLE, generation=generation, found=found, announced=announced), seen, rest, rules
    )


def _build(pool: Pool, seen: list[ResourceSlice], rest: list[ResourceSlice], rules: PoolRules) -> Pool:
    """Validate a complete pool and sort its slices."""
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
    """Pools in allocation order: by driver and name; those with binding conditions after all others.

    Incomplete and invalid pools count as pools without binding conditions, because their devices are not examined.
    """
    return tuple(sorted(pools, key=lambda pool: (pool.binding, pool.id)))
