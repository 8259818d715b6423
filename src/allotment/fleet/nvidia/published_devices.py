"""The devices that the NVIDIA driver publishes for GPUs in a given mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_uuid
from allotment.fleet.modes import ConsumableShares, DynamicMig, Full, NvidiaMode, Shared, StaticMig, Vfio
from allotment.fleet.nvidia.gpu import Gpu, gpus_of
from allotment.fleet.nvidia.gpu_devices import counted_gpu, mps_limited_gpu, vfio_gpu, whole_gpu
from allotment.fleet.nvidia.mig_devices import (
    ExistingMigDevice,
    counter_set,
    divisible_gpu,
    existing_mig_device,
    piece_name,
    possible_mig_devices,
)
from allotment.model.resource import CounterSet, Device

Group = tuple[Device, ...]


class FixedMigDevice(NamedTuple):
    """A MIG device of a static layout on a GPU."""

    profile_id: int
    start: int
    uuid: str


class Offering(NamedTuple):
    """Devices in groups that should share a slice, and the counters that they consume."""

    groups: tuple[Group, ...]
    counters: tuple[CounterSet, ...] = ()


def offering(
    gpus: Sequence[Gpu], mode: NvidiaMode, made: Mapping[str, Sequence[ExistingMigDevice]] | None = None
) -> Offering:
    """Return what these GPUs publish, in the given order, or by PCI address in MIG modes.

    ``made``: the existing MIG devices by PCI address; they are published unless the mode creates MIG devices itself.
    """
    if not isinstance(mode, Vfio):
        # GPUs for virtual machines are not available to containers.
        gpus = [gpu for gpu in gpus if not gpu.vfio_bound]
    match mode:
        case DynamicMig():
            return _dynamic_devices(_by_address(gpus))
        case Full():
            return Offering((tuple(device for gpu in gpus for device in _current_devices(gpu, made or {})),))
        case StaticMig():
            return Offering(
                (tuple(device for gpu in _by_address(gpus) for device in _current_devices(gpu, made or {})),)
            )
        case Vfio():
            return Offering((tuple(vfio_gpu(gpu, index) for index, gpu in enumerate(_by_address(gpus))),))
        case Shared():
            return Offering((tuple(mps_limited_gpu(gpu) for gpu in gpus),))
        case ConsumableShares():
            return Offering((tuple(counted_gpu(gpu, mode) for gpu in gpus),))


def offering_of(machine: Hardware, node: str, mode: NvidiaMode) -> Offering:
    """Return what a machine publishes according to its profile."""
    gpus = gpus_of(machine, node, mode)
    return offering(gpus, mode, fixed_mig_devices(gpus, node, mode))


def fixed_mig_devices(gpus: Sequence[Gpu], node: str, mode: NvidiaMode) -> dict[str, tuple[FixedMigDevice, ...]]:
    """Return the MIG devices of a mode's static layouts, by the parent's PCI address, with generated, stable UUIDs."""
    if not isinstance(mode, StaticMig):
        return {}
    return {
        gpu.pci: tuple(
            FixedMigDevice(
                piece.profile.gi_id, piece.start, f"MIG-{name_uuid(node + piece_name(gpu, piece.profile, piece.start))}"
            )
            for piece in mode.layouts[gpu.minor]
        )
        for gpu in gpus
    }


def _by_address(gpus: Sequence[Gpu]) -> list[Gpu]:
    return sorted(gpus, key=lambda gpu: gpu.pci)


def _current_devices(gpu: Gpu, made: Mapping[str, Sequence[ExistingMigDevice]]) -> list[Device]:
    """Return the MIG devices of a GPU in MIG mode, which cannot be used as a whole, or else the whole GPU."""
    if gpu.mig is None or not gpu.mig_enabled:
        return [whole_gpu(gpu)]
    found = [existing_mig_device(gpu, gpu.mig, existing) for existing in made.get(gpu.pci, ())]
    return [device for device in found if device is not None]


def _dynamic_devices(gpus: Sequence[Gpu]) -> Offering:
    """Return the possible MIG devices, and the whole GPU if MIG can be switched without a reset (Hopper and newer).

    On Ampere MIG mode is fixed at start-up: only MIG devices if it is on, only the whole GPU if it is off.
    """
    groups: list[Group] = []
    counters: list[CounterSet] = []
    for gpu in gpus:
        mig = gpu.mig
        if mig is None or (mig.reset_to_toggle and not gpu.mig_enabled):
            groups.append((whole_gpu(gpu),))
            continue
        counters.append(counter_set(gpu, mig))
        groups.append((*(() if mig.reset_to_toggle else (divisible_gpu(gpu, mig),)), *possible_mig_devices(gpu, mig)))
    return Offering(tuple(groups), tuple(counters))
