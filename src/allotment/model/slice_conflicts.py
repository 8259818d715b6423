"""Finds ResourceSlices of one pool that contradict each other, with the positions of both.

In the snapshot of a cluster, such a pool is handled as Kubernetes does (``pool-invalid``). In files that are still to
be applied it is a mistake. Only slices of one generation are compared (KEP-4381: an older generation is replaced, it is
not a contradiction), and missing counters are reported only if all slices of the pool are present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.model.decoding import Manifest
from allotment.model.problems import Position
from allotment.model.resource import ResourceSlice


class SliceConflict(NamedTuple):
    """One of two positions that disagree, as a field path of the v1 shape.

    ``other``: the other position, if known; ``other_label``: the words before it in a hint.
    """

    manifest: Manifest
    path: str
    message: str
    other: Position | None
    other_label: str


class _Slice(NamedTuple):
    manifest: Manifest
    value: ResourceSlice


def find_conflicts(manifests: Iterable[Manifest]) -> Iterator[SliceConflict]:
    """Yield the conflicts between the slices of each pool, in the order of the files."""
    pools: dict[tuple[str, str, int], list[_Slice]] = {}
    for manifest in manifests:
        if isinstance(value := manifest.value, ResourceSlice):
            pool = value.spec.pool
            pools.setdefault((value.spec.driver, pool.name, pool.generation), []).append(_Slice(manifest, value))
    for (driver, name, generation), slices in pools.items():
        pool_label = f"pool {driver}/{name}"
        yield from _count_conflicts(f"{pool_label}, generation {generation}", slices)
        yield from _name_conflicts(pool_label, slices)
        if len(slices) == slices[0].value.spec.pool.resource_slice_count:
            yield from _missing_counters(pool_label, slices)


def _count_conflicts(pool: str, slices: list[_Slice]) -> Iterator[SliceConflict]:
    """Slices with different values of ``resourceSliceCount``, or more slices than that."""
    path = "spec.pool.resourceSliceCount"
    first = slices[0]
    expected = first.value.spec.pool.resource_slice_count
    differing = [current for current in slices if current.value.spec.pool.resource_slice_count != expected]
    for current in differing:
        count = current.value.spec.pool.resource_slice_count
        message = f"{pool}: resourceSliceCount is {count} here and {expected} in ResourceSlice {_name(first)}"
        yield _conflict(current, path, message, first.manifest.position(path))
    if not differing and len(slices) > expected > 0:
        message = f"{pool}: found {len(slices)} slices, but resourceSliceCount is {expected}"
        yield _conflict(slices[expected], path, message, first.manifest.position(path), "the first slice is at")


def _name_conflicts(pool: str, slices: list[_Slice]) -> Iterator[SliceConflict]:
    """Devices and counter sets with names that another slice uses; validation covers duplicates within a slice."""
    for noun, attribute, field in (
        ("device", "devices", "devices"),
        ("counter set", "shared_counters", "sharedCounters"),
    ):
        first: dict[str, tuple[_Slice, str]] = {}
        for current in slices:
            for index, item in enumerate(getattr(current.value.spec, attribute) or ()):
                path = f"spec.{field}[{index}].name"
                other, other_path = first.setdefault(item.name, (current, path))
                if other is not current:
                    message = f"{pool}: {noun} {item.name} is also in ResourceSlice {_name(other)}"
                    yield _conflict(current, path, message, other.manifest.position(other_path))


def _missing_counters(pool: str, slices: list[_Slice]) -> Iterator[SliceConflict]:
    """Counters that devices consume and no slice of the complete pool defines; each is reported once."""
    counter_sets = {
        counter_set.name: (current, index, counter_set.counters)
        for current in slices
        for index, counter_set in enumerate(current.value.spec.shared_counters or ())
    }
    reported: set[tuple[str, str]] = set()
    for current in slices:
        for d, device in enumerate(current.value.spec.devices or ()):
            for c, consumption in enumerate(device.consumes_counters):
                path = f"spec.devices[{d}].consumesCounters[{c}]"
                name = consumption.counter_set
                if name not in counter_sets:
                    if (name, "") not in reported:
                        reported.add((name, ""))
                        yield _conflict(current, f"{path}.counterSet", f"{pool}: no slice has counter set {name}", None)
                    continue
                owner, index, counters = counter_sets[name]
                for counter in consumption.counters:
                    if counter not in counters and (name, counter) not in reported:
                        reported.add((name, counter))
                        message = f"{pool}: counter set {name} has no counter {counter}"
                        other = owner.manifest.position(f"spec.sharedCounters[{index}].name")
                        yield _conflict(current, f"{path}.counters[{counter}]", message, other, "the set is at")


def _name(resource_slice: _Slice) -> str:
    return resource_slice.manifest.key.name


def _conflict(
    resource_slice: _Slice, path: str, message: str, other: Position | None, other_label: str = "the other is at"
) -> SliceConflict:
    return SliceConflict(resource_slice.manifest, path, message, other, other_label)
