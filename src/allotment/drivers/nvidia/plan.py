"""The plan of a claim: every change to the hardware, stored before it is made, and sufficient to undo it.

GPUs are identified by PCI address, MIG devices by GPU, profile and start, MPS daemons by key, so a plan can be undone
without the hardware or the driver's memory. A later version can add fields, and must not change these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from allotment.decoding import decodable
from allotment.model.trees import Tree

Kind: TypeAlias = Literal["gpu", "mig", "vfio"]


class _PlanStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Fields are named as in JSON. Unknown fields are ignored: a newer driver may have written them."""


class PlannedDevice(_PlanStruct, frozen=True):
    """A device of the claim. ``uuid``: of a GPU, or of a MIG device that existed before.

    ``dynamic``: a MIG device that is created for this claim. ``admin``: admin access, the device is not changed.
    ``api``: the virtual machine monitor also gets the API device; ``iommu_fd``: through IOMMUFD if possible. ``group``:
    the IOMMU group of a GPU for a virtual machine, -1 if unknown.
    """

    kind: Kind
    pool: str
    device: str
    pci: str
    share_id: str = ""
    uuid: str = ""
    profile_id: int = -1
    start: int = -1
    dynamic: bool = msgspec.field(default=False, name="made")
    admin: bool = False
    api: bool = False
    iommu_fd: bool = False
    group: int = -1

    @property
    def identity(self) -> str:
        """A stable name, also before the device exists: its UUID, or its location."""
        return self.uuid or f"{self.pci}/{self.profile_id}/{self.start}"


class TimeSlice(_PlanStruct, frozen=True):
    """The time slice of some GPUs, 0 (default) to 3 (long)."""

    gpus: tuple[str, ...]
    interval: int


class PlannedDaemon(_PlanStruct, frozen=True):
    """An MPS daemon for some of the claim's devices, by their positions.

    ``exclusive``: it owns its whole GPUs, so that every program uses it. ``limit``, ``limits``: MiB of memory for each
    program, by default and by UUID or index.
    """

    key: str
    members: tuple[int, ...]
    exclusive: bool = True
    threads: int | None = None
    limit: int | None = None
    limits: dict[str, int] = {}
    multi_user: bool = False


class Plan(_PlanStruct, frozen=True):
    """The plan of one claim."""

    claim: str
    devices: tuple[PlannedDevice, ...] = msgspec.field(default=(), name="held")
    time_slices: tuple[TimeSlice, ...] = ()
    daemons: tuple[PlannedDaemon, ...] = ()

    def to_tree(self) -> Tree:
        """The plan as JSON."""
        tree: Tree = msgspec.json.decode(msgspec.json.encode(self))
        return tree

    def daemon_of(self, position: int) -> PlannedDaemon | None:
        """The daemon that serves a device."""
        return next((daemon for daemon in self.daemons if position in daemon.members), None)

    def sharing_setting(self, pci: str) -> tuple[object, ...]:
        """The sharing setting of a whole GPU; claims that share the GPU must have the same."""
        for time_slice in self.time_slices:
            if pci in time_slice.gpus:
                return ("time slice", time_slice.interval)
        for daemon in self.daemons:
            if pci in self.gpus_of(daemon):
                return ("MPS", daemon.exclusive)
        return ()

    def gpus_of(self, daemon: PlannedDaemon) -> tuple[str, ...]:
        """PCI addresses of the whole GPUs that a daemon serves."""
        devices = (self.devices[position] for position in daemon.members)
        return tuple(dict.fromkeys(device.pci for device in devices if device.kind == "gpu"))


def decode(tree: Tree) -> Plan:
    """Decode a plan. Raises msgspec.ValidationError."""
    return msgspec.convert(tree, decodable(Plan))


def decode_known(trees: Iterable[Tree]) -> Iterator[Plan]:
    """Decode plans, without those of unknown versions."""
    for tree in trees:
        try:
            yield decode(tree)
        except msgspec.ValidationError:
            continue


def daemon_key(claim: str, identities: Iterable[str]) -> str:
    """The name of a claim's MPS daemon for some devices: unique, and the same after a restart.

    >>> daemon_key("7c9e", ["GPU-b", "GPU-a"]) == daemon_key("7c9e", ["GPU-a", "GPU-b"])
    True
    """
    return f"{claim}-{sha256(','.join(sorted(identities)).encode()).hexdigest()[:5]}"
