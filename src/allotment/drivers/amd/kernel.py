"""AMD's hardware through the kernel's files: of the host, of a copy, or of a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from allotment.cluster.clock import Clock
from allotment.drivers.amd import pci_binding, pci_functions, sysfs
from allotment.drivers.amd.hardware import CharacterDevice, GpuHealth, HardwareError
from allotment.drivers.amd.kernel_files import KernelFiles
from allotment.drivers.amd.reliability import unhealthy_gpus
from allotment.fleet.amd import Function, Gpu, Part

T = TypeVar("T")

#: How often a host is looked at for GPUs that came or went.
POLL_SECONDS: Final = 10.0


async def reload_module() -> None:
    """Load the kernel module anew, which is when a memory mode takes effect. Raises HardwareError."""
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
    """Hardware behind files. Reading them takes a thread, for a GPU that wakes up answers late."""

    def __init__(self, files: KernelFiles, clock: Clock, *, reload: Callable[[], Awaitable[None]] = reload_module) -> None:
        self.files = files
        self._clock = clock
        self._reload = reload

    async def call(self, function: Callable[[], T]) -> T:
        """Do something with the files."""
        return await asyncio.to_thread(function)

    async def gpus(self) -> tuple[Gpu, ...]:
        """What there is, by PCI address."""
        return await self.call(lambda: sysfs.gpus(self.files))

    async def device_files(self, part: Part) -> tuple[CharacterDevice, ...]:
        """The device files of a GPU or partition."""
        return await self.call(lambda: self._device_files(part))

    def _device_files(self, part: Part) -> tuple[CharacterDevice, ...]:
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
        """Divide a GPU. Raises HardwareError."""
        await self._write(pci, "compute", mode)

    async def set_memory_partition(self, mode: str) -> None:
        """Change the memory mode of all GPUs that have one. Raises HardwareError."""
        for gpu in await self.gpus():
            if gpu.memory:
                await self._write(gpu.pci, "memory", mode)
        await self._reload()

    async def functions(self) -> tuple[Function, ...]:
        """What virtual machines can have."""
        return await self.call(lambda: pci_functions.functions(self.files))

    async def unhealthy_gpus(self) -> Mapping[str, GpuHealth]:
        """What is wrong with GPUs, by PCI address."""
        return await self.call(lambda: unhealthy_gpus(self.files))

    async def iommu_group_peers(self, pci: str) -> tuple[str, ...]:
        """Other devices of a function's IOMMU group that some kernel driver has."""
        return await self.call(
            lambda: tuple(
                peer for peer in pci_functions.iommu_group_peers(self.files, pci) if pci_functions.driver_of(self.files, peer)
            )
        )

    async def bind(self, pci: str, driver: str) -> None:
        """Have a kernel driver drive a function. Raises HardwareError."""
        await pci_binding.bind(self.files, pci, driver, self.call)

    async def vfio_device_files(self, pci: str, *, iommu_fd: bool) -> tuple[CharacterDevice, ...]:
        """The device files of a function that ``vfio-pci`` has."""
        return await self.call(lambda: pci_binding.vfio_device_files(self.files, pci, iommu_fd=iommu_fd))

    async def _write(self, pci: str, kind: str, mode: str) -> None:
        try:
            await self.call(lambda: self.files.write(f"{sysfs.GPUS}/{pci}/current_{kind}_partition", mode.upper()))
        except OSError as error:
            raise HardwareError(f"GPU {pci}: {kind} partition mode {mode.upper()}: {error.strerror}") from error

    async def changes(self) -> AsyncIterator[None]:
        """GPUs, partitions or functions came or went, got ill or well."""
        previous = await self.call(self._signature)
        while True:
            await self._clock.sleep(POLL_SECONDS)
            current = await self.call(self._signature)
            if current != previous:
                previous = current
                yield

    def _signature(self) -> object:
        return sysfs.signature(self.files), unhealthy_gpus(self.files)
