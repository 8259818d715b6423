"""Conversion of a device pool to ResourceSlices that an API server accepts.

The server rejects a slice, with all devices of the node, for one invalid attribute: in a released driver, a kernel
module's version with four parts did that, while the pod stayed ready. An attribute that cannot be published is
therefore omitted and reported; any other problem makes the whole pool invalid before anything is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from allotment.drivers.driver import DevicePool
from allotment.fleet.errors import FleetError
from allotment.fleet.splitting import split
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import Device, DeviceAttribute, ResourcePool, ResourceSlice, ResourceSliceSpec
from allotment.model.validation.admission import object_errors
from allotment.model.validation.attributes import attribute, has_list, value_count
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.devices import ENTRIES_MAX, VALUES_MAX
from allotment.model.validation.lists import check_map
from allotment.model.validation.qualified_names import NAME_MAX, qualified_name


class InvalidPool(ValueError):
    """Raised for a pool that the API server or schedulers would reject; ``problems`` has all reasons."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class PoolSlices(NamedTuple):
    """The slices of a pool in the scheduler's order, without generation.

    ``notes``: the omitted attributes and the reasons.
    """

    specs: tuple[ResourceSliceSpec, ...]
    notes: tuple[str, ...] = ()


def build_slices(pool: DevicePool, driver: str, node: str, features: Features) -> PoolSlices:
    """Return the slices of a pool for the cluster's release. Raises InvalidPool."""
    groups, notes = _publishable(pool.groups, lists=features.enabled("DRAListTypeAttributes"))
    problems = list(_pool_problems(groups, pool))
    try:
        parts = split(groups, pool.counter_sets, features)
    except FleetError as error:
        raise InvalidPool((*problems, str(error))) from None
    resource_pool = ResourcePool(name=pool.name or node, resource_slice_count=len(parts))
    specs = tuple(
        ResourceSliceSpec(
            driver=driver, pool=resource_pool, node_name=None if pool.node_selector else node,
            node_selector=pool.node_selector,
            devices=part.devices or None, shared_counters=part.counters or None,
        )
        for part in parts
    )  # fmt: skip
    problems.extend(text for spec in specs for text in _slice_problems(spec, features))
    if problems:
        raise InvalidPool(dict.fromkeys(problems))
    return PoolSlices(specs, notes)


# --- attributes -------------------------------------------------------------------------------------------------------


def _publishable(
    groups: Sequence[Sequence[Device]], *, lists: bool
) -> tuple[tuple[tuple[Device, ...], ...], tuple[str, ...]]:
    """Return the devices without attributes that would be rejected. ``lists``: whether lists are supported."""
    notes: dict[str, list[str]] = {}

    def without_invalid(device: Device) -> Device:
        problems = {
            name: text for name, value in device.attributes.items() if (text := _attribute_problem(name, value))
        }
        if not lists and has_list(device):
            # Without the gate the server drops the value and then rejects the attribute as empty.
            for name, value in device.attributes.items():
                if has_list(Device(attributes={name: value})):
                    problems[name] = (
                        f"attribute {name}: the cluster does not support list attributes "
                        "(feature gate DRAListTypeAttributes)"
                    )
        if not problems:
            return device
        for text in problems.values():
            notes.setdefault(text, []).append(device.name)
        return replace(device, attributes={k: v for k, v in device.attributes.items() if k not in problems})

    clean = tuple(tuple(without_invalid(device) for device in group) for group in groups)
    note_texts = (f"{text}; not published for {', '.join(devices)}" for text, devices in notes.items())
    return clean, tuple(note_texts)


@lru_cache(maxsize=8192)  # the same for all devices of a model, except for a few identifiers
def _attribute_problem(name: str, value: DeviceAttribute) -> str:
    """Return why an attribute cannot be published, or an empty string."""
    errors = check_map({name: value}, None, NAME_MAX, qualified_name, attribute, "")
    error = next(iter(errors), None)
    return f"attribute {name}: {str(error).partition(': ')[2]}" if error is not None else ""


# --- validation -------------------------------------------------------------------------------------------------------


def _pool_problems(groups: Sequence[Sequence[Device]], pool: DevicePool) -> Iterator[str]:
    """Yield the inconsistencies for which schedulers ignore a pool; the API server validates only single slices."""
    devices = [device for group in groups for device in group]
    yield from (f"two devices are named {name!r}" for name in _duplicates(device.name for device in devices))
    yield from (
        f"two counter sets are named {name!r}" for name in _duplicates(counters.name for counters in pool.counter_sets)
    )
    sets = {counters.name: counters.counters for counters in pool.counter_sets}
    for device in devices:
        for consumed in device.consumes_counters:
            if consumed.counter_set not in sets:
                yield f"device {device.name!r} consumes unknown counter set {consumed.counter_set!r}"
                continue
            for name in consumed.counters.keys() - sets[consumed.counter_set].keys():
                yield f"device {device.name!r} consumes {name!r}, which is not in counter set {consumed.counter_set!r}"


def _duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _slice_problems(spec: ResourceSliceSpec, features: Features) -> Iterator[str]:
    """Yield the API server's errors for a slice. Attributes were checked before, except for their number."""
    context = ValidationContext(features, lambda expression, *, stored: ())  # slices have no expressions
    for device in spec.devices or ():
        entries, values = len(device.attributes) + len(device.capacity), value_count(device)
        if entries > ENTRIES_MAX or values > VALUES_MAX:
            yield (
                f"device {device.name!r} has {entries} attributes and capacities with {values} values; at most "
                f"{ENTRIES_MAX} with {VALUES_MAX} values are allowed"
            )
    bare_devices = tuple(replace(device, attributes={}) for device in spec.devices or ())
    # Separate counters and devices, since only releases from 1.35 on forbid them in one slice.
    for partial in (replace(spec, devices=bare_devices or None, shared_counters=None), replace(spec, devices=None)):
        for error in object_errors(ResourceSlice(metadata=ObjectMeta(name="offer"), spec=partial), context):
            yield str(error)
