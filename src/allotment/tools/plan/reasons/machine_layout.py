"""The inside of a planned machine: its GPUs, the pieces that they are in, and whose each piece is.

Screens count what is free by it, and pictures draw it. What a machine publishes is told by its form; a partition lies
on its GPU where the driver's table of placements puts it, so that what is left between pieces is seen, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

from allotment.fleet.description import Machine, parse_fleet
from allotment.fleet.errors import FleetError
from allotment.fleet.modes import Partitioned, StaticMig
from allotment.fleet.slices import slices_of
from allotment.model.quantity import Quantity, QuantityError
from allotment.tools.plan.report import PlannedMachine, PodPlacement

_NVIDIA: Final = re.compile(r"gpu-(?P<gpu>[0-9]+)(?:-mig-(?P<profile>.+)-[0-9]+-(?P<start>[0-9]+))?")
_AMD: Final = re.compile(r"gpu-(?P<card>[0-9]+)-[0-9]+")


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A piece of a GPU. ``start`` and ``size`` are fractions of it; ``pods`` have it, nobody if empty.

    ``kind``: what the piece is, empty for a whole GPU: a MIG profile, an amount of memory, a number of shares.
    """

    start: Fraction
    size: Fraction
    device: str
    kind: str = ""
    pods: tuple[str, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class GpuLayout:
    """One GPU, its pieces in the order in which they lie. ``whole``: it is given, or left, as one."""

    number: int
    parts: tuple[GpuPart, ...]
    is_whole: bool = True

    @property
    def allocated(self) -> Fraction:
        """The fraction of it that somebody has."""
        return sum((part.size for part in self.parts if part.pods), Fraction(0))


@dataclass(frozen=True, slots=True)
class MachineLayout:
    """What a machine is made of. ``model``: the accelerator's id; empty without GPUs, or if the form is not known."""

    gpus: tuple[GpuLayout, ...] = ()
    model: str = ""
    product: str = ""

    @property
    def idle(self) -> int:
        """GPUs of which nobody has anything."""
        return sum(1 for gpu in self.gpus if not gpu.allocated)

    @property
    def spare(self) -> tuple[tuple[str, int], ...]:
        """Pieces that are left on GPUs in use: kind and how many."""
        parts: dict[str, int] = {}
        for gpu in self.gpus:
            for part in gpu.parts:
                if gpu.allocated and not part.pods and part.kind:
                    parts[part.kind] = parts.get(part.kind, 0) + 1
        return tuple(parts.items())


@dataclass(slots=True)
class _DeviceShare:
    """So much of each of a device's capacities, which one request of a claim has; ``pods`` use that claim."""

    owner: str
    amounts: dict[str, str]
    pods: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _DeviceUsers:
    """Who has a device: the pods with their workloads, and their shares, if it is not given whole."""

    pods: dict[str, str] = field(default_factory=dict)
    shares: dict[tuple[str, str], _DeviceShare] = field(default_factory=dict)


def layout_of(machine: PlannedMachine) -> MachineLayout:
    """The GPUs of a planned machine and who has what of them."""
    parsed = _parsed(machine.form)
    if parsed is None:
        return MachineLayout()
    users_by_device = _users_by_device(machine.seats)
    gpus: list[GpuLayout] = []
    sizes = _capacities(machine.form)
    for number in range(len(parsed.hardware.slots)):
        users_here = {name: users for name, users in users_by_device.items() if _gpu_of(parsed, name) == number}
        gpus.append(_gpu(parsed, number, users_here, sizes))
    record = parsed.hardware.accelerator
    return MachineLayout(tuple(gpus), record.id, record.product)


def _users_by_device(seats: Iterable[PodPlacement]) -> dict[str, _DeviceUsers]:
    """By device, who has it."""
    parts: dict[str, _DeviceUsers] = {}
    for seat in seats:
        for claim in seat.claims:
            for device in claim.devices:
                if device.admin_access:  # looks on, and takes nothing
                    continue
                users = parts.setdefault(device.device, _DeviceUsers())
                users.pods[str(seat.pod)] = seat.owner
                if device.share:
                    key = (claim.name, device.request)
                    users.shares.setdefault(key, _DeviceShare(seat.owner, device.share)).pods.append(str(seat.pod))
    return parts


def _gpu(parsed: Machine, number: int, users_by_device: dict[str, _DeviceUsers], sizes: dict[str, dict[str, Quantity]]) -> GpuLayout:
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
    """Shares of one device side by side, each as wide as the largest fraction of a capacity that it takes."""
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
    """The pieces with what nobody has between and behind them."""
    parts: list[GpuPart] = []
    end = Fraction(0)
    for part in parts:
        if part.start > end:
            parts.append(GpuPart(end, part.start - end, ""))
        parts.append(part)
        end = max(end, part.start + part.size)
    if end < 1:
        parts.append(GpuPart(end, 1 - end, ""))
    return parts


def _static_parts(parsed: Machine, number: int) -> list[GpuPart]:
    """The pieces that a GPU is cut into before anybody asks."""
    if not isinstance(parsed.mode, StaticMig | Partitioned):
        return []
    names = [name for name in _devices(parsed) if _gpu_of(parsed, name) == number]
    placed = ((name, _partition_position(parsed, name)) for name in names)
    return [GpuPart(position[0], position[1], name, position[2]) for name, position in placed if position is not None]


def _partition_position(parsed: Machine, device: str) -> tuple[Fraction, Fraction, str] | None:
    """Where a partition lies on its GPU, how large it is, and of what kind; None for a whole GPU."""
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
    """A profile as names of devices have it."""
    return profile.replace(".", "").replace("+", "-")


def _gpu_of(parsed: Machine, device: str) -> int:
    """Which GPU of the machine a device is, or is on; -1 if its name does not say so."""
    if (parts := _NVIDIA.fullmatch(device)) is not None:
        return int(parts["gpu"])
    if (parts := _AMD.fullmatch(device)) is not None:
        card = int(parts["card"])
        before = [n for n, slot in enumerate(parsed.hardware.slots) if slot.card <= card]
        return max(before, key=lambda n: parsed.hardware.slots[n].card, default=-1)
    return -1


@lru_cache(maxsize=1024)
def _parsed(form: str) -> Machine | None:
    try:
        return parse_fleet([form])[0] if form else None
    except FleetError:
        return None


def _devices(parsed: Machine) -> tuple[str, ...]:
    return tuple(_capacities(parsed.form))


@lru_cache(maxsize=1024)
def _capacities(form: str) -> dict[str, dict[str, Quantity]]:
    """What each device of a form has, by name, in the order in which the driver publishes them."""
    parsed = _parsed(form)
    if parsed is None:
        return {}
    return {
        device.name: {name.rpartition("/")[2]: capacity.value for name, capacity in device.capacity.items()}
        for one in slices_of(parsed.hardware, parsed.mode, "n")
        for device in one.spec.devices or ()
    }
