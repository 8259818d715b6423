"""MIG devices as published: existing ones, and all possible ones with shared counters.

Names contain the parent's minor number, profile, profile id and first memory slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from allotment.fleet.mig import DIMENSIONS, MigPlacement, totals
from allotment.fleet.nvidia.attributes import known, model, string
from allotment.fleet.nvidia.gpu import Gpu
from allotment.fleet.nvidia.gpu_devices import attributes_of, name_of
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
    """A MIG device that exists on a GPU: profile, first memory slice and UUID."""

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
    """Return the device name of a MIG device."""
    return f"gpu-{gpu.minor}-{_suffix(profile, start)}"


def counter_set(gpu: Gpu, mig: Mig) -> CounterSet:
    """Return the counter set that a GPU's possible MIG devices consume (KEP-4815)."""
    return CounterSet(name=_counter_set(gpu), counters=_everything(mig))


def divisible_gpu(gpu: Gpu, mig: Mig) -> Device:
    """Return the whole GPU as a device that consumes all counters; its memory is that of the largest profile."""
    counters = _everything(mig)
    return Device(
        name=name_of(gpu),
        attributes=attributes_of(gpu),
        capacity={capacity: DeviceCapacity(value=counters[counter].value) for _, capacity, counter in DIMENSIONS},
        consumes_counters=(DeviceCounterConsumption(counter_set=_counter_set(gpu), counters=counters),),
    )


def possible_mig_devices(gpu: Gpu, mig: Mig) -> tuple[Device, ...]:
    """Return all possible MIG devices, by name.

    They have no UUID before they exist, and no memory-slice capacities: selectors must not depend on the placement.
    """
    common = _attributes(gpu)  # the profile is a placeholder, which keeps the order
    return tuple(
        Device(
            name=f"gpu-{gpu.minor}-{form.suffix}",
            attributes={**common, "profile": form.profile},
            capacity=form.capacity,
            consumes_counters=(DeviceCounterConsumption(counter_set=_counter_set(gpu), counters=form.counters),),
        )
        for form in _forms(mig)
    )


def common_attributes(gpu: Gpu) -> dict[str, DeviceAttribute]:
    """Return the common attributes of a GPU's MIG devices, with placeholders for profile and UUID to keep the order."""
    return _attributes(gpu, uuid=string("?"))


def existing_mig_device(
    gpu: Gpu, mig: Mig, made: ExistingMigDevice, common: Mapping[str, DeviceAttribute] | None = None
) -> Device | None:  # fmt: skip
    """Return an existing MIG device as published, or None if unknown. ``common``: its `common_attributes`."""
    profile = next((profile for profile in mig.profiles if profile.gi_id == made.profile_id), None)
    if profile is None:
        return None
    slices = {f"memorySlice{n}": DeviceCapacity(value=_ONE) for n in MigPlacement(profile, made.start).slices}
    return Device(
        name=piece_name(gpu, profile, made.start),
        attributes=known(
            {**(common or common_attributes(gpu)), "profile": string(profile.name), "uuid": string(made.uuid)}
        ),
        capacity=_capacity(profile) | slices,
    )


class _ModelDevices(NamedTuple):
    """The common data of possible MIG devices of a GPU model, computed once for large fleets."""

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
    # The id distinguishes 1g.24gb+me from 1g.24gb-me, which are equal as DNS labels.
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
