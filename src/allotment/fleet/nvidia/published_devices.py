"""GPUs and a mode to what the driver publishes: the one place that knows which GPU becomes which devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from allotment.fleet.hardware import Hardware
from allotment.fleet.identity import name_uuid
from allotment.fleet.modes import ConsumableShares, DynamicMig, Full, NvidiaMode, Shared, StaticMig, Vfio
from allotment.fleet.nvidia.gpu import Gpu, gpus_of
from allotment.fleet.nvidia.mig_devices import Existing, counter_set, divisible, existing, piece_name, possible
from allotment.fleet.nvidia.shared_gpus import counted, enforced
from allotment.fleet.nvidia.vfio import vfio
from allotment.fleet.nvidia.whole_gpus import whole
from allotment.model.resource import CounterSet, Device

Group = tuple[Device, ...]


class Made(NamedTuple):
    """A MIG device that a fixed layout has on a GPU."""

    profile_id: int
    start: int
    uuid: str


class Offering(NamedTuple):
    """Devices in groups that should share a slice, and the counters that they consume."""

    groups: tuple[Group, ...]
    counters: tuple[CounterSet, ...] = ()


def offering(gpus: Sequence[Gpu], mode: NvidiaMode, made: Mapping[str, Sequence[Existing]] | None = None) -> Offering:
    """What these GPUs publish, in the order given or, where GPUs are cut, by PCI address.

    ``made``: the MIG devices that exist, by PCI address; they are published where the mode does not make its own.
    """
    if not isinstance(mode, Vfio):
        # What a virtual machine has, or may get, is not there for containers.
        gpus = [gpu for gpu in gpus if not gpu.vfio_bound]
    match mode:
        case DynamicMig():
            return _on_demand(_by_address(gpus))
        case Full():
            return Offering((tuple(device for gpu in gpus for device in _as_it_is(gpu, made or {})),))
        case StaticMig():
            return Offering((tuple(device for gpu in _by_address(gpus) for device in _as_it_is(gpu, made or {})),))
        case Vfio():
            return Offering((tuple(vfio(gpu, index) for index, gpu in enumerate(_by_address(gpus))),))
        case Shared():
            return Offering((tuple(enforced(gpu) for gpu in gpus),))
        case ConsumableShares():
            return Offering((tuple(counted(gpu, mode) for gpu in gpus),))


def offering_of(machine: Hardware, node: str, mode: NvidiaMode) -> Offering:
    """What a machine publishes by its profile."""
    gpus = gpus_of(machine, node, mode)
    return offering(gpus, mode, made_of(gpus, node, mode))


def made_of(gpus: Sequence[Gpu], node: str, mode: NvidiaMode) -> dict[str, tuple[Made, ...]]:
    """The MIG devices of a mode's fixed layouts, by the parent's PCI address. UUIDs are made up, but stable."""
    if not isinstance(mode, StaticMig):
        return {}
    return {
        gpu.pci: tuple(
            Made(
                piece.profile.gi_id, piece.start, f"MIG-{name_uuid(node + piece_name(gpu, piece.profile, piece.start))}"
            )
            for piece in mode.layouts[gpu.minor]
        )
        for gpu in gpus
    }


def _by_address(gpus: Sequence[Gpu]) -> list[Gpu]:
    return sorted(gpus, key=lambda gpu: gpu.pci)


def _as_it_is(gpu: Gpu, made: Mapping[str, Sequence[Existing]]) -> list[Device]:
    """A GPU in MIG mode is nothing but its pieces: as a whole it can no longer be used."""
    if gpu.mig is None or not gpu.mig_enabled:
        return [whole(gpu)]
    found = [existing(gpu, gpu.mig, one) for one in made.get(gpu.pci, ())]
    return [device for device in found if device is not None]


def _on_demand(gpus: Sequence[Gpu]) -> Offering:
    """The whole GPU is on offer beside its pieces where MIG can be switched without a reset (Hopper and newer).

    On Ampere the mode is as it was set at start-up: with MIG on only pieces, with MIG off only the whole.
    """
    groups: list[Group] = []
    counters: list[CounterSet] = []
    for gpu in gpus:
        mig = gpu.mig
        if mig is None or (mig.reset_to_toggle and not gpu.mig_enabled):
            groups.append((whole(gpu),))
            continue
        counters.append(counter_set(gpu, mig))
        groups.append((*(() if mig.reset_to_toggle else (divisible(gpu, mig),)), *possible(gpu, mig)))
    return Offering(tuple(groups), tuple(counters))
