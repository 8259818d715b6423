"""AMD's hardware interface implemented on the kernel's files of a host, a copy or a simulation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from allotment.cluster.clock import Clock
from allotment.drivers.amd import pci_binding, pci_functions, sysfs
from allotment.drivers.amd.hardware import CharacterDevice, GpuHealth, HardwareError
from allotment.drivers.amd.kernel_files import KernelFiles
from allotment.drivers.amd.sysfs import ADDRESS, GPUS
from allotment.fleet.amd import Function, Gpu, GpuPartition

T = TypeVar("T")

#: Polling interval for added and removed GPUs.
POLL_SECONDS: Final = 10.0


async def reload_module() -> None:
    """Reload the kernel module, which makes a new memory mode take effect. Raises HardwareError."""
    for arguments in (("-r", "amdgpu"), ("amdgpu",)):
        try:
            process = await asyncio.create_subprocess_exec(
                "modprobe", *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise HardwareError(f"modprobe: {error.strerror}") from error
        _, stderr = await process.communicate()
        if process.returncode:
            raise HardwareError(f"modprobe {' '.join(arguments)}: {stderr.decode(errors='replace').strip()}")


class KernelHardware:
    """Hardware behind the kernel's files. They are read in a thread, because a GPU that wakes up answers slowly."""

    def __init__(
        self, files: KernelFiles, clock: Clock, *, reload: Callable[[], Awaitable[None]] = reload_module
    ) -> None:
        self.files = files
        self._clock = clock
        self._reload = reload

    async def call(self, function: Callable[[], T]) -> T:
        """Call a blocking function that uses the files."""
        return await asyncio.to_thread(function)

    async def gpus(self) -> tuple[Gpu, ...]:
        return await self.call(lambda: sysfs.gpus(self.files))

    async def device_files(self, part: GpuPartition) -> tuple[CharacterDevice, ...]:
        return await self.call(lambda: self._device_files(part))

    def _device_files(self, part: GpuPartition) -> tuple[CharacterDevice, ...]:
        files = []
        for path, number_file in (
            ("dev/kfd", "sys/class/kfd/kfd/dev"),
            (f"dev/dri/card{part.card}", f"sys/class/drm/card{part.card}/dev"),
            (f"dev/dri/renderD{part.render}", f"sys/class/drm/renderD{part.render}/dev"),
        ):
            major, colon, minor = (self.files.read(number_file) or "").partition(":")
            group = self.files.group_id(path)
            if not colon or group is None:
                return ()
            files.append(CharacterDevice(f"/{path}", int(major), int(minor), group))
        return tuple(files)

    async def set_compute_partition(self, pci: str, mode: str) -> None:
        await self._write(pci, "compute", mode)

    async def set_memory_partition(self, mode: str) -> None:
        """Set the memory partition mode of all GPUs that have one, and reload the module. Raises HardwareError."""
        for gpu in await self.gpus():
            if gpu.memory:
                await self._write(gpu.pci, "memory", mode)
        await self._reload()

    async def functions(self) -> tuple[Function, ...]:
        return await self.call(lambda: pci_functions.functions(self.files))

    async def unhealthy_gpus(self) -> Mapping[str, GpuHealth]:
        return await self.call(lambda: read_unhealthy_gpus(self.files))

    async def iommu_group_peers(self, pci: str) -> tuple[str, ...]:
        return await self.call(
            lambda: tuple(
                peer
                for peer in pci_functions.iommu_group_peers(self.files, pci)
                if pci_functions.driver_of(self.files, peer)
            )
        )

    async def bind(self, pci: str, driver: str) -> None:
        await pci_binding.bind(self.files, pci, driver, self.call)

    async def vfio_device_files(self, pci: str, *, iommu_fd: bool) -> tuple[CharacterDevice, ...]:
        return await self.call(lambda: pci_binding.vfio_device_files(self.files, pci, iommu_fd=iommu_fd))

    async def _write(self, pci: str, kind: str, mode: str) -> None:
        try:
            await self.call(lambda: self.files.write(f"{sysfs.GPUS}/{pci}/current_{kind}_partition", mode.upper()))
        except OSError as error:
            raise HardwareError(
                f"GPU {pci}: cannot set {kind} partition mode {mode.upper()}: {error.strerror}"
            ) from error

    async def changes(self) -> AsyncIterator[None]:
        """Poll for changes of GPUs, partitions, functions and GPU health."""
        previous = await self.call(self._signature)
        while True:
            await self._clock.sleep(POLL_SECONDS)
            current = await self.call(self._signature)
            if current != previous:
                previous = current
                yield

    def _signature(self) -> object:
        return sysfs.signature(self.files), read_unhealthy_gpus(self.files)


_COUNTER: Final = re.compile(r"(\w+)_err_count")
_UNCORRECTED: Final = re.compile(r"^ue: *([0-9]+)", re.MULTILINE)
#: The vendor id of a device that does not answer: two bytes of ones, which do not decode as text.
_ALL_ONES: Final = "\N{REPLACEMENT CHARACTER}" * 2


def read_unhealthy_gpus(files: KernelFiles) -> Mapping[str, GpuHealth]:
    """The health of the unhealthy GPUs of the kernel module, by PCI address.

    The module counts errors for each block of a GPU (``ras/umc_err_count``: ``ue: 0``, ``ce: 3``). Corrected errors are
    normal; an uncorrectable one means that a computation was wrong or was killed. A reset of the GPU clears the
    counters, and the GPU is healthy again. A GPU that has fallen off the bus is still listed in sysfs, but its PCI
    configuration reads as all ones.
    """
    by_address = {pci: _gpu_health(files, f"{GPUS}/{pci}") for pci in files.listdir(GPUS) if ADDRESS.fullmatch(pci)}
    return {pci: health for pci, health in by_address.items() if health != GpuHealth()}


def _gpu_health(files: KernelFiles, path: str) -> GpuHealth:
    errors = []
    for name in files.listdir(f"{path}/ras"):
        counter = _COUNTER.fullmatch(name)
        count = _UNCORRECTED.search(files.read(f"{path}/ras/{name}") or "") if counter else None
        if counter and count and int(count[1]):
            errors.append((counter[1], int(count[1])))
    return GpuHealth((files.read(f"{path}/config") or "").startswith(_ALL_ONES), tuple(errors))
