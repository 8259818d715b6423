"""The interface to NVIDIA's hardware, implemented by NVML and the driver's tools on a GPU node and by a simulation
elsewhere.

GPUs are identified by their PCI address (``0000:07:00.0``), MIG devices by GPU, profile and start: these survive a
crash, a restart and a reboot. GPUs are described by :class:`allotment.fleet.nvidia.Gpu`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from allotment.cdi.spec import ContainerEdits
from allotment.fleet.nvidia import Gpu

ComputeMode = Literal["DEFAULT", "EXCLUSIVE_PROCESS"]


class HardwareError(Exception):
    """The hardware or its driver refused an operation; the text contains the operation, the device and the error."""


class GpuLost(HardwareError):
    """The GPU was not found or no longer answers: everything that was set or created on it is gone."""


class MigDevice(NamedTuple):
    """An existing MIG device: a GPU instance with a compute instance over all of it."""

    pci: str
    profile_id: int
    start: int
    uuid: str
    gpu_instance: int
    compute_instance: int


class MpsDaemon(NamedTuple):
    """An MPS control daemon. ``key``: its stable name. ``memory_limits``: MiB by GPU UUID.

    ``threads``: default active thread percentage, None for all. ``multi_user``: accept clients of any user.
    """

    key: str
    uuids: tuple[str, ...]
    threads: int | None = None
    memory_limits: Mapping[str, int] = {}
    multi_user: bool = False


class Xid(NamedTuple):
    """A critical event of a GPU; with ``number`` 0 the GPU is lost."""

    pci: str
    number: int


class Unmonitored(NamedTuple):
    """Critical events of a GPU are not available; only its loss is noticed."""

    pci: str


class GpusChanged(NamedTuple):
    """GPUs were added or removed. ``recovered``: GPUs that were reset or added again, and are healthy."""

    recovered: tuple[str, ...] = ()


Event: TypeAlias = Xid | Unmonitored | GpusChanged


class Hardware(Protocol):
    """The GPUs of a node. Every method can raise HardwareError and GpuLost; repeating an operation is no error."""

    async def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs, in the order in which claims should get them; none without a driver."""
        ...

    async def mig_devices(self, pci: str) -> tuple[MigDevice, ...]:
        """The existing MIG devices of a GPU."""
        ...

    async def create_mig(self, pci: str, profile_id: int, start: int) -> MigDevice:
        """Create a MIG device, or return the existing one; after an error nothing is left. Enables MIG if that needs no
        reset.
        """
        ...

    async def destroy_mig(self, pci: str, profile_id: int, start: int) -> None:
        """Destroy a MIG device (compute instance first); after the last one, MIG is disabled if it was enabled on
        demand.
        """
        ...

    async def disable_mig(self, pci: str) -> None:
        """Disable MIG on a GPU, so that it can be used as a whole. Raises HardwareError if that is not possible."""
        ...

    async def set_time_slice(self, pci: str, interval: int) -> None:
        """Set the time slice (0 default, 1 short, 2 medium, 3 long) and compute mode DEFAULT."""
        ...

    async def set_compute_mode(self, pci: str, mode: ComputeMode) -> None:
        """Set which processes can use a GPU."""
        ...

    async def start_mps(self, daemon: MpsDaemon) -> None:
        """Start a control daemon and wait until it answers."""
        ...

    async def stop_mps(self, key: str) -> None:
        """Stop a control daemon and remove its folders; an unknown key is no error."""
        ...

    async def mps_daemons(self) -> frozenset[str]:
        """Keys of the running daemons."""
        ...

    async def bind_vfio(self, pci: str, bound: bool, *, together_with: Collection[str] = ()) -> int:
        """Bind a GPU to vfio-pci, or back to NVIDIA's driver; returns its IOMMU group.

        ``together_with``: other GPUs that are bound in the same way, so that they may be in the same group.
        """
        ...

    def common_edits(self) -> ContainerEdits:
        """Edits for every container with a GPU: control nodes, libraries, hooks."""
        ...

    def gpu_edits(self, pci: str) -> ContainerEdits:
        """Edits for a container with a whole GPU."""
        ...

    def mig_edits(self, device: MigDevice) -> ContainerEdits:
        """Edits for a container with a MIG device."""
        ...

    def mps_edits(self, key: str) -> ContainerEdits:
        """Edits for a client of a control daemon."""
        ...

    def vfio_edits(self, pci: str, group: int, *, api_device: bool, iommu_fd: bool) -> ContainerEdits:
        """Edits for a virtual machine with a GPU that is bound to vfio-pci.

        ``api_device``: also the device through which the virtual machine monitor programs the IOMMU. ``iommu_fd``: use
        IOMMUFD where the host has it.
        """
        ...

    def grant_edits(self, claim: str, device: str | MigDevice, daemon: str = "") -> ContainerEdits:
        """Edits with which programs reach a simulated device. Empty on real hardware.

        ``device``: a whole GPU's PCI address or a MIG device. ``daemon``: key of the control daemon that it is a client
        of.
        """
        ...

    def events(self) -> AsyncIterator[Event]:
        """Events of the GPUs, without end."""
        ...
