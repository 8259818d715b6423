"""AMD's hardware through the kernel's files: of the host, of a copy, or of a simulation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from allotment.cluster.clock import Clock
from allotment.drivers.amd import pci_binding, pci_functions, sysfs
from allotment.drivers.amd.hardware import Ailment, Character, HardwareError
from allotment.drivers.amd.kernel_files import Files
from allotment.drivers.amd.reliability import ailments
from allotment.fleet.amd import Function, Gpu, Part

T = TypeVar("T")

#: How often a host is looked at for GPUs that came or went.
LOOK_SECONDS: Final = 10.0


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
        _, told = await process.communicate()
        if process.returncode:
            raise HardwareError(f"modprobe {' '.join(arguments)}: {told.decode(errors='replace').strip()}")


class Kernel:
    """Hardware behind files. Reading them takes a thread, for a GPU that wakes up answers late."""

    def __init__(self, files: Files, clock: Clock, *, reload: Callable[[], Awaitable[None]] = reload_module) -> None:
        self.files = files
        self._clock = clock
        self._reload = reload

    async def ask(self, question: Callable[[], T]) -> T:
        """Do something with the files."""
        return await asyncio.to_thread(question)

    async def gpus(self) -> tuple[Gpu, ...]:
        """What there is, by PCI address."""
        return await self.ask(lambda: sysfs.gpus(self.files))

    async def characters(self, part: Part) -> tuple[Character, ...]:
        """The device files of a GPU or partition."""
        return await self.ask(lambda: self._characters(part))

    def _characters(self, part: Part) -> tuple[Character, ...]:
        found = []
        for path, told in (
            ("dev/kfd", "sys/class/kfd/kfd/dev"),
            (f"dev/dri/card{part.card}", f"sys/class/drm/card{part.card}/dev"),
            (f"dev/dri/renderD{part.render}", f"sys/class/drm/renderD{part.render}/dev"),
        ):
            major, colon, minor = (self.files.read(told) or "").partition(":")
            group = self.files.group(path)
            if not colon or group is None:
                return ()
            found.append(Character(f"/{path}", int(major), int(minor), group))
        return tuple(found)

    async def set_compute(self, pci: str, mode: str) -> None:
        """Divide a GPU. Raises HardwareError."""
        await self._write(pci, "compute", mode)

    async def set_memory(self, mode: str) -> None:
        """Change the memory mode of all GPUs that have one. Raises HardwareError."""
        for gpu in await self.gpus():
            if gpu.memory:
                await self._write(gpu.pci, "memory", mode)
        await self._reload()

    async def functions(self) -> tuple[Function, ...]:
        """What virtual machines can have."""
        return await self.ask(lambda: pci_functions.functions(self.files))

    async def ailments(self) -> Mapping[str, Ailment]:
        """What is wrong with GPUs, by PCI address."""
        return await self.ask(lambda: ailments(self.files))

    async def mates(self, pci: str) -> tuple[str, ...]:
        """Other devices of a function's IOMMU group that some kernel driver has."""
        return await self.ask(
            lambda: tuple(
                one for one in pci_functions.mates(self.files, pci) if pci_functions.driver_of(self.files, one)
            )
        )

    async def bind(self, pci: str, driver: str) -> None:
        """Have a kernel driver drive a function. Raises HardwareError."""
        await pci_binding.bind(self.files, pci, driver, self.ask)

    async def handed_over(self, pci: str, *, iommu_fd: bool) -> tuple[Character, ...]:
        """The device files of a function that ``vfio-pci`` has."""
        return await self.ask(lambda: pci_binding.characters(self.files, pci, iommu_fd=iommu_fd))

    async def _write(self, pci: str, kind: str, mode: str) -> None:
        try:
            await self.ask(lambda: self.files.write(f"{sysfs.GPUS}/{pci}/current_{kind}_partition", mode.upper()))
        except OSError as error:
            raise HardwareError(f"GPU {pci}: {kind} partition mode {mode.upper()}: {error.strerror}") from error

    async def changes(self) -> AsyncIterator[None]:
        """GPUs, partitions or functions came or went, got ill or well."""
        known = await self.ask(self._signature)
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            seen = await self.ask(self._signature)
            if seen != known:
                known = seen
                yield

    def _signature(self) -> object:
        return sysfs.signature(self.files), ailments(self.files)
