"""MIG devices: those that exist, and those that could be made.

Names carry the parent's minor number, profile, profile id and place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from allotment.fleet.mig import DIMENSIONS, MigPlacement, totals
from allotment.fleet.nvidia.attributes import known, model, string
from allotment.fleet.nvidia.gpu import Gpu
from allotment.fleet.nvidia.whole_gpus import attributes_of, name_of
from allotment.fleet.profiles import MIB, Mig, MigProfile
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
)

_ONE = Quantity.of_int(1)


class ExistingMigDevice(Protocol):
    """A MIG device that exists on a GPU: what it is, where, and what the driver calls it."""

    @property
    def profile_id(self) -> int:
        """The GPU instance profile's id."""
        ...

    @property
    def start(self) -> int:
        """The first memory slice."""
        ...

    @property
    def uuid(self) -> str:
        """``MIG-…``."""
        ...


def piece_name(gpu: Gpu, profile: MigProfile, start: int) -> str:
    """The name of the MIG device of a profile at a place."""
    return f"gpu-{gpu.minor}-{_suffix(profile, start)}"


def counter_set(gpu: Gpu, mig: Mig) -> CounterSet:
    """What a GPU shares among its possible MIG devices (KEP-4815)."""
    return CounterSet(name=_counter_set(gpu), counters=_everything(mig))


def divisible_gpu(gpu: Gpu, mig: Mig) -> Device:
    """A whole GPU that consumes everything its pieces could; its memory is then the largest profile's."""
    counters = _everything(mig)
    return Device(
        name=name_of(gpu),
        attributes=attributes_of(gpu),
        capacity={capacity: DeviceCapacity(value=counters[counter].value) for _, capacity, counter in DIMENSIONS},
        consumes_counters=(DeviceCounterConsumption(counter_set=_counter_set(gpu), counters=counters),),
    )


def possible_mig_devices(gpu: Gpu, mig: Mig) -> tuple[Device, ...]:
    """Every MIG device that could be made, by name.

    No UUID before it exists, and no memory-slice capacities: a selector must not be able to ask for a place.
    """
    told = _attributes(gpu)  # with a profile to be replaced, which keeps the order
    return tuple(
        Device(
            name=f"gpu-{gpu.minor}-{form.suffix}",
            attributes={**told, "profile": form.profile},
            capacity=form.capacity,
            consumes_counters=(DeviceCounterConsumption(counter_set=_counter_set(gpu), counters=form.counters),),
        )
        for form in _forms(mig)
    )


def common_attributes(gpu: Gpu) -> dict[str, DeviceAttribute]:
    """What all MIG devices of a GPU say of it, with a profile and a UUID to be replaced, which keeps the order."""
    return _attributes(gpu, uuid=string("?"))


def existing_mig_device(
    gpu: Gpu, mig: Mig, made: ExistingMigDevice, told: Mapping[str, DeviceAttribute] | None = None
) -> Device | None:  # fmt: skip
    """A MIG device that exists; none if its profile is unknown. ``told``: what `told_of` says, for one of many."""
    profile = next((profile for profile in mig.profiles if profile.gi_id == made.profile_id), None)
    if profile is None:
        return None
    slices = {f"memorySlice{n}": DeviceCapacity(value=_ONE) for n in MigPlacement(profile, made.start).slices}
    return Device(
        name=piece_name(gpu, profile, made.start),
        attributes=known({**(told or common_attributes(gpu)), "profile": string(profile.name), "uuid": string(made.uuid)}),
        capacity=_capacity(profile) | slices,
    )


class _ModelDevices(NamedTuple):
    """What possible MIG devices of all GPUs of a model have in common. Made once: a large fleet has many."""

    suffix: str
    profile: DeviceAttribute
    capacity: dict[str, DeviceCapacity]
    counters: dict[str, Counter]


@lru_cache(maxsize=64)
def _forms(mig: Mig) -> tuple[_ModelDevices, ...]:
    forms = []
    for profile in mig.profiles:
        capacity = _capacity(profile)
        amounts = {counter: Counter(value=_amount(field, profile)) for field, _, counter in DIMENSIONS}
        for start in profile.starts:
            slices = {f"memory-slice-{n}": Counter(value=_ONE) for n in MigPlacement(profile, start).slices}
            named = DeviceAttribute(string=profile.name)
            forms.append(_ModelDevices(_suffix(profile, start), named, capacity, amounts | slices))
    return tuple(sorted(forms, key=lambda form: form.suffix))


def _suffix(profile: MigProfile, start: int) -> str:
    # The id tells 1g.24gb+me from 1g.24gb-me, which read the same once the name is a DNS label.
    return f"mig-{profile.name.replace('.', '').replace('+', '-')}-{profile.gi_id}-{start}"


def _attributes(gpu: Gpu, profile: str = "?", **more: DeviceAttribute | None) -> dict[str, DeviceAttribute]:
    own = {"type": string("mig"), "parentUUID": string(gpu.uuid), "profile": string(profile)}
    return known({**model(gpu), **own, **more})


@lru_cache(maxsize=512)
def _capacity(profile: MigProfile) -> dict[str, DeviceCapacity]:
    return {capacity: DeviceCapacity(value=_amount(field, profile)) for field, capacity, _ in DIMENSIONS}


@lru_cache(maxsize=64)
def _everything(mig: Mig) -> dict[str, Counter]:
    total = totals(mig)
    counters = {counter: Counter(value=_quantity(field, total[field])) for field, _, counter in DIMENSIONS}
    return counters | {f"memory-slice-{n}": Counter(value=_ONE) for n in range(mig.memory_slices)}


def _amount(field: str, profile: MigProfile) -> Quantity:
    return _quantity(field, getattr(profile, field))


def _quantity(field: str, number: int) -> Quantity:
    return Quantity.binary(number * MIB) if field == "memory_mib" else Quantity.of_int(number)


def _counter_set(gpu: Gpu) -> str:
    return f"gpu-{gpu.minor}-counter-set"
