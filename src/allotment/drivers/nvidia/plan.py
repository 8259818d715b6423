"""What preparing a claim does to the hardware, written down before it is done, and enough to undo it.

GPUs are named by PCI address, MIG devices by GPU, profile and place, MPS daemons by their keys; none of it needs the
hardware, or the driver's memory, to be understood. A later version may add fields, and must not change these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from allotment.model.trees import Tree

Kind: TypeAlias = Literal["gpu", "mig", "vfio"]


class _PlanStruct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Names as in JSON. Unknown fields are passed over: a newer driver may have written them."""


class PlannedDevice(_PlanStruct, frozen=True):
    """A device of the claim. ``uuid``: of a GPU, or of a MIG device that was there before.

    ``made``: a MIG device that exists only for this claim. ``admin``: merely looked at, nothing is done to it. ``api``:
    the monitor of a virtual machine also gets the API device; ``iommu_fd``: through the newer interface, if it can.
    ``group``: the IOMMU group of a GPU that is handed over, -1 if unknown.
    """

    kind: Kind
    pool: str
    device: str
    pci: str
    share_id: str = ""
    uuid: str = ""
    profile_id: int = -1
    start: int = -1
    dynamic: bool = False
    admin: bool = False
    api: bool = False
    iommu_fd: bool = False
    group: int = -1

    @property
    def identity(self) -> str:
        """What it is called before it exists: its UUID, or where it will be."""
        return self.uuid or f"{self.pci}/{self.profile_id}/{self.start}"


class TimeSlice(_PlanStruct, frozen=True):
    """Programs on these GPUs take turns of a length, 0 (default) to 3 (long)."""

    gpus: tuple[str, ...]
    interval: int


class PlannedDaemon(_PlanStruct, frozen=True):
    """An MPS daemon for some of the devices held, by their positions.

    ``exclusive``: it owns its whole GPUs, so that nobody gets past it. ``limit``, ``limits``: MiB of memory for each
    program, in general and by UUID or index.
    """

    key: str
    members: tuple[int, ...]
    exclusive: bool = True
    threads: int | None = None
    limit: int | None = None
    limits: dict[str, int] = {}
    multi_user: bool = False


class Plan(_PlanStruct, frozen=True):
    """All of one claim."""

    claim: str
    devices: tuple[PlannedDevice, ...] = ()
    time_slices: tuple[TimeSlice, ...] = ()
    daemons: tuple[PlannedDaemon, ...] = ()

    def to_tree(self) -> Tree:
        """As JSON."""
        tree: Tree = msgspec.json.decode(msgspec.json.encode(self))
        return tree

    def daemon_of(self, position: int) -> PlannedDaemon | None:
        """The daemon that a device's programs are clients of."""
        return next((daemon for daemon in self.daemons if position in daemon.members), None)

    def sharing_setting(self, pci: str) -> tuple[object, ...]:
        """What the plan sets a whole GPU to; claims that share the GPU must agree on it."""
        for time_slice in self.time_slices:
            if pci in time_slice.gpus:
                return ("time slice", time_slice.interval)
        for daemon in self.daemons:
            if pci in self.gpus_of(daemon):
                return ("MPS", daemon.exclusive)
        return ()

    def gpus_of(self, daemon: PlannedDaemon) -> tuple[str, ...]:
        """The whole GPUs that a daemon serves."""
        devices = (self.devices[position] for position in daemon.members)
        return tuple(dict.fromkeys(device.pci for device in devices if device.kind == "gpu"))


def decode(tree: Tree) -> Plan:
    """A plan from JSON. Raises msgspec.ValidationError."""
    return msgspec.convert(tree, Plan)


def decode_known(trees: Iterable[Tree]) -> Iterator[Plan]:
    """Plans from JSON, but for those that no version that we know has written."""
    for tree in trees:
        try:
            yield decode(tree)
        except msgspec.ValidationError:
            continue


def daemon_key(claim: str, identities: Iterable[str]) -> str:
    """The name of a claim's MPS daemon over some devices: unique, and the same again after a restart.

    >>> daemon_key("7c9e", ["GPU-b", "GPU-a"]) == daemon_key("7c9e", ["GPU-a", "GPU-b"])
    True
    """
    return f"{claim}-{sha256(','.join(sorted(identities)).encode()).hexdigest()[:5]}"
