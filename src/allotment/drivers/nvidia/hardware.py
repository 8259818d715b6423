"""The one interface to NVIDIA's hardware: NVML and the driver's tools where a GPU is, a simulation elsewhere.

GPUs are named by their PCI address (``0000:07:00.0``), MIG devices by GPU, profile and place: these survive a crash, a
restart and a reboot. Facts about a GPU are :class:`allotment.fleet.nvidia.Gpu`, whoever found them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from allotment.cdi.spec import ContainerEdits
from allotment.fleet.nvidia import Gpu

ComputeMode = Literal["DEFAULT", "EXCLUSIVE_PROCESS"]


class HardwareError(Exception):
    """The hardware or its driver refused; the text says what was asked of which device, and its answer."""


class GpuLost(HardwareError):
    """The GPU is not there (any more), or no longer answers: what was set or made on it is gone with it."""


class MigDevice(NamedTuple):
    """A MIG device that exists: a GPU instance with a compute instance over all of it."""

    pci: str
    profile_id: int
    start: int
    uuid: str
    gpu_instance: int
    compute_instance: int


class MpsDaemon(NamedTuple):
    """An MPS control daemon. ``key`` names it for good. ``memory_limits``: MiB by GPU UUID.

    ``threads``: default active thread percentage, None for all. ``multi_user``: clients of any user.
    """

    key: str
    uuids: tuple[str, ...]
    threads: int | None = None
    memory_limits: Mapping[str, int] = {}
    multi_user: bool = False


class Xid(NamedTuple):
    """A critical event of a GPU; ``number`` 0: the GPU is lost."""

    pci: str
    number: int


class Unmonitored(NamedTuple):
    """A GPU's critical events cannot be had; only its loss is noticed."""

    pci: str


class GpusChanged(NamedTuple):
    """GPUs came or went. ``fresh``: those that were reset or came back: whatever was wrong with them is over."""

    recovered: tuple[str, ...] = ()


Event: TypeAlias = Xid | Unmonitored | GpusChanged


class Hardware(Protocol):
    """The GPUs of a node. Every method may raise HardwareError, and GpuLost; what is asked twice is no error."""

    async def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs, in the order in which claims should get them; none where there is no driver."""
        ...

    async def mig_devices(self, pci: str) -> tuple[MigDevice, ...]:
        """The MIG devices that exist on a GPU."""
        ...

    async def create_mig(self, pci: str, profile_id: int, start: int) -> MigDevice:
        """Make a MIG device, all or nothing; the one there if it is there. MIG goes on where that needs no reset."""
        ...

    async def destroy_mig(self, pci: str, profile_id: int, start: int) -> None:
        """Destroy a MIG device (compute instance first); with the last one, MIG goes off where it was switched on."""
        ...

    async def disable_mig(self, pci: str) -> None:
        """Have MIG off on a GPU, so that it can be used as a whole; an error where that is not possible."""
        ...

    async def set_time_slice(self, pci: str, interval: int) -> None:
        """0 default, 1 short, 2 medium, 3 long; compute mode DEFAULT with it."""
        ...

    async def set_compute_mode(self, pci: str, mode: ComputeMode) -> None:
        """Who may use a GPU."""
        ...

    async def start_mps(self, daemon: MpsDaemon) -> None:
        """Start a control daemon and wait until it answers."""
        ...

    async def stop_mps(self, key: str) -> None:
        """Stop a control daemon and remove its folders; unknown is stopped already."""
        ...

    async def mps_daemons(self) -> frozenset[str]:
        """Keys of the daemons that run."""
        ...

    async def bind_vfio(self, pci: str, bound: bool, *, together_with: Collection[str] = ()) -> int:
        """Hand a GPU to vfio-pci, or back to the vendor's driver; its IOMMU group.

        ``beside``: others that go the same way, and so are no obstacle where they are of the same group.
        """
        ...

    def common_edits(self) -> ContainerEdits:
        """What every container with a GPU needs: control nodes, libraries, hooks."""
        ...

    def gpu_edits(self, pci: str) -> ContainerEdits:
        """What a container needs of a whole GPU."""
        ...

    def mig_edits(self, device: MigDevice) -> ContainerEdits:
        """What a container needs of a MIG device."""
        ...

    def mps_edits(self, key: str) -> ContainerEdits:
        """What a client of a control daemon needs."""
        ...

    def vfio_edits(self, pci: str, group: int, *, api_device: bool, iommu_fd: bool) -> ContainerEdits:
        """What a virtual machine needs of a GPU handed to vfio-pci.

        ``api_device``: also what its monitor talks to the IOMMU through. ``iommu_fd``: the newer interface of both,
        where the host has it.
        """
        ...

    def grant_edits(self, claim: str, device: str | MigDevice, daemon: str = "") -> ContainerEdits:
        """What only a simulation needs: how a container's programs reach their device. Empty on real hardware.

        ``device``: a whole GPU's PCI address or a MIG device. ``daemon``: key of the control daemon it is a client of.
        """
        ...

    def events(self) -> AsyncIterator[Event]:
        """What happens to the GPUs, for ever."""
        ...
