"""ResourceSlices of one pool that contradict each other, told with both places.

A cluster's snapshot may hold such a pool, and then the answer is what Kubernetes makes of it (``pool-invalid``). In
files that are still to be applied it is a mistake. Only slices of one generation are compared (KEP-4381: an older
generation is replaced, not contradicted), and counters are looked for only when all slices of the pool are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from allotment.model.decoding import Manifest
from allotment.model.problems import Position
from allotment.model.resource import ResourceSlice


class SliceConflict(NamedTuple):
    """One of the two places that disagree, a field path of the v1 shape; ``words`` lead to the ``other``, if told."""

    manifest: Manifest
    path: str
    message: str
    other: Position | None
    other_label: str


class _Slice(NamedTuple):
    """A slice and where it was written."""

    manifest: Manifest
    value: ResourceSlice


def find_conflicts(manifests: Iterable[Manifest]) -> Iterator[SliceConflict]:
    """What the slices of each pool disagree about, in the order of the files."""
    pools: dict[tuple[str, str, int], list[_Slice]] = {}
    for manifest in manifests:
        if isinstance(value := manifest.value, ResourceSlice):
            pool = value.spec.pool
            pools.setdefault((value.spec.driver, pool.name, pool.generation), []).append(_Slice(manifest, value))
    for (driver, name, generation), slices in pools.items():
        told = f"pool {driver}/{name}"
        yield from _counts(f"{told}, generation {generation}", slices)
        yield from _names(told, slices)
        if len(slices) == slices[0].value.spec.pool.resource_slice_count:
            yield from _counters(told, slices)


def _counts(pool: str, slices: list[_Slice]) -> Iterator[SliceConflict]:
    """Slices that announce different numbers of slices, or more slices than announced."""
    path = "spec.pool.resourceSliceCount"
    first = slices[0]
    announced = first.value.spec.pool.resource_slice_count
    differing = [one for one in slices if one.value.spec.pool.resource_slice_count != announced]
    for one in differing:
        count = one.value.spec.pool.resource_slice_count
        message = f"{pool}: resourceSliceCount is {count} here and {announced} in ResourceSlice {_name(first)}"
        yield _contradiction(one, path, message, first.manifest.position(path))
    if not differing and len(slices) > announced > 0:
        message = f"{pool}: {len(slices)} slices are given, resourceSliceCount is {announced}"
        yield _contradiction(slices[announced], path, message, first.manifest.position(path), "the first is at")


def _names(pool: str, slices: list[_Slice]) -> Iterator[SliceConflict]:
    """Devices and counter sets whose names are taken by another slice; within one slice validation tells."""
    for what, attribute, field in (
        ("device", "devices", "devices"),
        ("counter set", "shared_counters", "sharedCounters"),
    ):
        first: dict[str, tuple[_Slice, str]] = {}
        for one in slices:
            for number, item in enumerate(getattr(one.value.spec, attribute) or ()):
                path = f"spec.{field}[{number}].name"
                known, where = first.setdefault(item.name, (one, path))
                if known is not one:
                    message = f"{pool}: {what} {item.name} is in ResourceSlice {_name(known)} too"
                    yield _contradiction(one, path, message, known.manifest.position(where))


def _counters(pool: str, slices: list[_Slice]) -> Iterator[SliceConflict]:
    """Counters that devices consume and no slice of the whole pool has; each is told once."""
    sets = {one.name: (s, n, one.counters) for s in slices for n, one in enumerate(s.value.spec.shared_counters or ())}
    told: set[tuple[str, str]] = set()
    for one in slices:
        for d, device in enumerate(one.value.spec.devices or ()):
            for u, use in enumerate(device.consumes_counters):
                path = f"spec.devices[{d}].consumesCounters[{u}]"
                if use.counter_set not in sets:
                    if (use.counter_set, "") not in told:
                        told.add((use.counter_set, ""))
                        message = f"{pool}: no slice has counter set {use.counter_set}"
                        yield _contradiction(one, f"{path}.counterSet", message, None)
                    continue
                holder, number, counters = sets[use.counter_set]
                for name in use.counters:
                    if name not in counters and (use.counter_set, name) not in told:
                        told.add((use.counter_set, name))
                        message = f"{pool}: counter set {use.counter_set} has no counter {name}"
                        where = holder.manifest.position(f"spec.sharedCounters[{number}].name")
                        yield _contradiction(one, f"{path}.counters[{name}]", message, where, "the set is at")


def _name(one: _Slice) -> str:
    return one.manifest.key.name


def _contradiction(
    one: _Slice, path: str, message: str, other: Position | None, words: str = "the other is at"
) -> SliceConflict:
    return SliceConflict(one.manifest, path, message, other, words)
