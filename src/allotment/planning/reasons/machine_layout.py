"""The layout of a planned machine: its GPUs, their parts, and the pods that use each part.

The CLI output counts free GPUs with it, and charts draw it. The machine's form determines what it publishes; partitions
are positioned by the driver's placement table, so that gaps between them are known too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

from allotment.fleet.description import FleetMachine, parse_fleet
from allotment.fleet.errors import FleetError
from allotment.fleet.modes import Partitioned, StaticMig
from allotment.fleet.slices import slices_of
from allotment.model.quantity import Quantity, QuantityError
from allotment.planning.report import PlannedMachine, PodPlacement

_NVIDIA: Final = re.compile(r"gpu-(?P<gpu>[0-9]+)(?:-mig-(?P<profile>.+)-[0-9]+-(?P<start>[0-9]+))?")
_AMD: Final = re.compile(r"gpu-(?P<card>[0-9]+)-[0-9]+")


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of a GPU. ``start`` and ``size``: fractions of the GPU. ``pods``: its users; empty if it is free.

    ``kind``: a MIG profile, an amount of memory or a number of shares; empty for a whole GPU.
    """

    start: Fraction
    size: Fraction
    device: str
    kind: str = ""
    pods: tuple[str, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """One GPU with its parts in order of position. ``is_whole``: it is not partitioned."""

    number: int
    parts: tuple[GpuPart, ...]
    is_whole: bool = True

    @property
    def allocated(self) -> Fraction:
        """The fraction of the GPU that is in use."""
        return sum((part.size for part in self.parts if part.pods), Fraction(0))


@dataclass(frozen=True, slots=True)
class MachineLayout:
    """The GPUs of a machine. ``model``: the accelerator's ID; empty without GPUs or if the form is unknown."""

    gpus: tuple[GpuLayout, ...] = ()
    model: str = ""
    product: str = ""

    @property
    def idle(self) -> int:
        """The number of GPUs without users."""
        return sum(1 for gpu in self.gpus if not gpu.allocated)

    @property
    def spare(self) -> tuple[tuple[str, int], ...]:
        """The free parts on GPUs in use: pairs of kind and count."""
        parts: dict[str, int] = {}
        for gpu in self.gpus:
            for part in gpu.parts:
                if gpu.allocated and not part.pods and part.kind:
                    parts[part.kind] = parts.get(part.kind, 0) + 1
        return tuple(parts.items())


@dataclass(slots=True)
class _DeviceShare:
    """The amounts of a device's capacities that one request of a claim has, and the pods that use the claim."""

    owner: str
    amounts: dict[str, str]
    pods: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _DeviceUsers:
    """The users of a device: pods with their workloads, and their shares if the device is shared."""

    pods: dict[str, str] = field(default_factory=dict)
    shares: dict[tuple[str, str], _DeviceShare] = field(default_factory=dict)


def layout_of(machine: PlannedMachine) -> MachineLayout:
    """The GPUs of a planned machine with the users of each part."""
    parsed = _parsed(machine.form)
    if parsed is None:
        return MachineLayout()
    users_by_device = _users_by_device(machine.placements)
    gpus: list[GpuLayout] = []
    sizes = _capacities(machine.form)
    for number in range(len(parsed.hardware.slots)):
        users_here = {name: users for name, users in users_by_device.items() if _gpu_of(parsed, name) == number}
        gpus.append(_gpu(parsed, number, users_here, sizes))
    record = parsed.hardware.accelerator
    return MachineLayout(tuple(gpus), record.id, record.product)


def _users_by_device(placements: Iterable[PodPlacement]) -> dict[str, _DeviceUsers]:
    """The users by device name."""
    parts: dict[str, _DeviceUsers] = {}
    for placement in placements:
        for claim in placement.claims:
            for device in claim.devices:
                if device.admin_access:  # uses no capacity
                    continue
                users = parts.setdefault(device.device, _DeviceUsers())
                users.pods[str(placement.pod)] = placement.owner
                if device.share:
                    key = (claim.name, device.request)
                    users.shares.setdefault(key, _DeviceShare(placement.owner, device.share)).pods.append(
                        str(placement.pod)
                    )
    return parts


def _gpu(
    parsed: FleetMachine, number: int, users_by_device: dict[str, _DeviceUsers], sizes: dict[str, dict[str, Quantity]]
) -> GpuLayout:
    cut = _static_parts(parsed, number)
    parts = list(cut)
    for name, users in users_by_device.items():
        position = _partition_position(parsed, name)
        if position is None:
            parts += _shared_parts(name, users, sizes.get(name, {})) if users.shares else [_whole_part(name, users)]
            continue
        start, size, kind = position
        parts = [p for p in parts if p.device != name]
        pods, owner = tuple(users.pods), next(iter(users.pods.values()), "")
        parts.append(GpuPart(start, size, name, kind, pods, owner))
    parts.sort(key=lambda part: (part.start, part.device))
    whole = not cut and all(_partition_position(parsed, name) is None for name in users_by_device)
    return GpuLayout(number, tuple(_with_free_parts(parts)), whole)


def _whole_part(name: str, users: _DeviceUsers) -> GpuPart:
    return GpuPart(Fraction(0), Fraction(1), name, "", tuple(users.pods), next(iter(users.pods.values()), ""))


def _shared_parts(name: str, users: _DeviceUsers, whole: dict[str, Quantity]) -> list[GpuPart]:
    """The shares of one device side by side, each sized by the largest fraction of a capacity that it takes."""
    parts: list[GpuPart] = []
    end = Fraction(0)
    for share in users.shares.values():
        size, kind = Fraction(0), ""
        for capacity, text in share.amounts.items():
            fraction = _fraction(text, whole.get(capacity))
            if fraction >= size:
                size, kind = fraction, text if capacity == "memory" else f"{text} {capacity}"
        parts.append(GpuPart(end, size, name, kind, tuple(share.pods), share.owner))
        end += size
    return parts


def _fraction(text: str, whole: Quantity | None) -> Fraction:
    try:
        amount = Quantity.parse(text)
    except QuantityError:
        return Fraction(0)
    return min(Fraction(amount.nano, whole.nano), Fraction(1)) if whole is not None and whole.nano else Fraction(0)


def _with_free_parts(parts: list[GpuPart]) -> list[GpuPart]:
    """The parts with the free space between and after them."""
    result: list[GpuPart] = []
    end = Fraction(0)
    for part in parts:
        if part.start > end:
            result.append(GpuPart(end, part.start - end, ""))
        result.append(part)
        end = max(end, part.start + part.size)
    if end < 1:
        result.append(GpuPart(end, 1 - end, ""))
    return result


def _static_parts(parsed: FleetMachine, number: int) -> list[GpuPart]:
    """The static partitions of a GPU."""
    if not isinstance(parsed.mode, StaticMig | Partitioned):
        return []
    names = [name for name in _devices(parsed) if _gpu_of(parsed, name) == number]
    placed = ((name, _partition_position(parsed, name)) for name in names)
    return [GpuPart(position[0], position[1], name, position[2]) for name, position in placed if position is not None]


def _partition_position(parsed: FleetMachine, device: str) -> tuple[Fraction, Fraction, str] | None:
    """The start, size and kind of a partition on its GPU; None for a whole GPU."""
    match = _NVIDIA.fullmatch(device)
    mig = parsed.hardware.accelerator.mig
    if match is not None and match["profile"] and mig is not None:
        for profile in mig.profiles:
            if _device_name_of(profile.name) == match["profile"]:
                grid = mig.memory_slices
                return Fraction(int(match["start"]), grid), Fraction(profile.size, grid), profile.name
    if isinstance(parsed.mode, Partitioned):
        number = _gpu_of(parsed, device)
        names = [name for name in _devices(parsed) if _gpu_of(parsed, name) == number]
        if len(names) > 1 and device in names:
            kind = parsed.mode.partition.profile if parsed.mode.partition is not None else ""
            return Fraction(names.index(device), len(names)), Fraction(1, len(names)), kind
    return None


def _device_name_of(profile: str) -> str:
    """A profile in the form used in device names."""
    return profile.replace(".", "").replace("+", "-")


def _gpu_of(parsed: FleetMachine, device: str) -> int:
    """The index of the GPU that a device is or is on; -1 if its name does not contain it."""
    if (parts := _NVIDIA.fullmatch(device)) is not None:
        return int(parts["gpu"])
    if (parts := _AMD.fullmatch(device)) is not None:
        card = int(parts["card"])
        before = [n for n, slot in enumerate(parsed.hardware.slots) if slot.card <= card]
        return max(before, key=lambda n: parsed.hardware.slots[n].card, default=-1)
    return -1


@lru_cache(maxsize=1024)
def _parsed(form: str) -> FleetMachine | None:
    try:
        return parse_fleet([form])[0] if form else None
    except FleetError:
        return None


def _devices(parsed: FleetMachine) -> tuple[str, ...]:
    return tuple(_capacities(parsed.form))


@lru_cache(maxsize=1024)
def _capacities(form: str) -> dict[str, dict[str, Quantity]]:
    """The capacities of each device of a form, by device name, in the order of publication."""
    parsed = _parsed(form)
    if parsed is None:
        return {}
    return {
        device.name: {name.rpartition("/")[2]: capacity.value for name, capacity in device.capacity.items()}
        for slice_ in slices_of(parsed.hardware, parsed.mode, "n")
        for device in slice_.spec.devices or ()
    }
