"""A pool as a driver offers it, made into ResourceSlices that an API server takes.

One bad attribute would have the server refuse the whole slice, and with it every device of the node: a kernel module's
four-part version did that in a released driver, while its pod stayed ready. So an attribute that cannot be published is
left out and told; anything else that is wrong makes the whole offer invalid before a byte of it is sent.
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
from allotment.model.validation.attributes import attribute, has_list, value_count
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.devices import ENTRIES_MAX, VALUES_MAX
from allotment.model.validation.lists import check_map
from allotment.model.validation.qualified_names import NAME_MAX, qualified_name
from allotment.model.validation.slices import resource_slice


class InvalidPool(ValueError):
    """Raised for an offer that no API server or no scheduler would take; ``problems`` says all that is wrong."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class PoolSlices(NamedTuple):
    """The slices of one pool, in the order of the scheduler; their generation and number are the publisher's to set.

    ``notes``: attributes that were left out, and why.
    """

    specs: tuple[ResourceSliceSpec, ...]
    notes: tuple[str, ...] = ()


def build_slices(offer: DevicePool, driver: str, node: str, features: Features) -> PoolSlices:
    """The slices of an offer in the form that the cluster's release accepts. Raises InvalidOffer."""
    groups, notes = _publishable(offer.groups, lists=features.enabled("DRAListTypeAttributes"))
    problems = list(_pool_problems(groups, offer))
    try:
        parts = split(groups, offer.counter_sets, together=features.kube == "1.34")
    except FleetError as error:
        raise InvalidPool((*problems, str(error))) from None
    pool = ResourcePool(name=offer.name or node, resource_slice_count=len(parts))
    specs = tuple(
        ResourceSliceSpec(
            driver=driver, pool=pool, node_name=None if offer.node_selector else node, node_selector=offer.node_selector,
            devices=part.devices or None, shared_counters=part.counters or None,
        )
        for part in parts
    )  # fmt: skip
    problems.extend(text for spec in specs for text in _slice_problems(spec, features))
    if problems:
        raise InvalidPool(dict.fromkeys(problems))
    return PoolSlices(specs, notes)


# --- attributes ---------------------------------------------------------------------------------------------------


def _publishable(
    groups: Sequence[Sequence[Device]], *, lists: bool
) -> tuple[tuple[tuple[Device, ...], ...], tuple[str, ...]]:
    """The devices without attributes that would be refused. ``lists``: whether the server knows list attributes."""
    notes: dict[str, list[str]] = {}

    def cleaned(device: Device) -> Device:
        wrong = {name: text for name, value in device.attributes.items() if (text := _attribute_problem(name, value))}
        if not lists and has_list(device):
            # Without the gate the server takes the value out and then refuses the attribute for having none.
            for name, value in device.attributes.items():
                if has_list(Device(attributes={name: value})):
                    wrong[name] = f"attribute {name}: the cluster does not know lists (gate DRAListTypeAttributes)"
        if not wrong:
            return device
        for text in wrong.values():
            notes.setdefault(text, []).append(device.name)
        return replace(device, attributes={k: v for k, v in device.attributes.items() if k not in wrong})

    clean = tuple(tuple(cleaned(device) for device in group) for group in groups)
    told = (f"{text}; not published for {', '.join(devices)}" for text, devices in notes.items())
    return clean, tuple(told)


@lru_cache(maxsize=8192)  # the same on every device of a model, but for the few that identify it
def _attribute_problem(name: str, value: DeviceAttribute) -> str:
    """Why an attribute cannot be published; empty if it can."""
    errors = check_map({name: value}, None, NAME_MAX, qualified_name, attribute, "")
    found = next(iter(errors), None)
    return f"attribute {name}: {str(found).partition(': ')[2]}" if found is not None else ""


# --- the rest -----------------------------------------------------------------------------------------------------


def _pool_problems(groups: Sequence[Sequence[Device]], offer: DevicePool) -> Iterator[str]:
    """What the API server does not see, because it judges one slice at a time; a scheduler ignores such a pool."""
    devices = [device for group in groups for device in group]
    yield from (f"two devices called {name!r}" for name in _duplicates(device.name for device in devices))
    yield from (f"two counter sets called {name!r}" for name in _duplicates(one.name for one in offer.counter_sets))
    sets = {one.name: one.counters for one in offer.counter_sets}
    for device in devices:
        for taken in device.consumes_counters:
            if taken.counter_set not in sets:
                yield f"device {device.name!r} consumes of counter set {taken.counter_set!r}, which the pool has not"
                continue
            for name in taken.counters.keys() - sets[taken.counter_set].keys():
                yield f"device {device.name!r} consumes {name!r}, which counter set {taken.counter_set!r} has not"


def _duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _slice_problems(spec: ResourceSliceSpec, features: Features) -> Iterator[str]:
    """What the API server would say of a slice; of its attributes only that they are too many, for all are checked."""
    context = ValidationContext(features, lambda expression, *, stored: ())  # slices have no expressions
    for device in spec.devices or ():
        entries, values = len(device.attributes) + len(device.capacity), value_count(device)
        if entries > ENTRIES_MAX or values > VALUES_MAX:
            yield (
                f"device {device.name!r}: {entries} attributes and capacities with {values} values: wanted at most "
                f"{ENTRIES_MAX} with {VALUES_MAX}"
            )
    bare = tuple(replace(device, attributes={}) for device in spec.devices or ())
    # Counters and devices apart, for only releases since 1.35 forbid them in one slice.
    for half in (replace(spec, devices=bare or None, shared_counters=None), replace(spec, devices=None)):
        for error in resource_slice(ResourceSlice(metadata=ObjectMeta(name="offer"), spec=half), context):
            yield str(error)
