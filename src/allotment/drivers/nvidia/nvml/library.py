"""Finds and loads the NVML library under a driver root, and calls its functions.

Drivers differ in the functions that they support: one may be missing in an old driver, or not be supported by a GPU, a
virtual machine or a setting. Only the identity of a GPU is required; everything else may be unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar

from allotment.drivers.nvidia.hardware import GpuLost, HardwareError
from allotment.extras import MissingExtraError, require

P = ParamSpec("P")
T = TypeVar("T")

SONAME = "libnvidia-ml.so.1"

#: Library folders of distributions and of NVIDIA's driver containers.
LIBRARY_FOLDERS = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/lib/wsl/lib",
    "usr/lib",
    "lib",
)


class NvmlUnavailable(Exception):
    """NVIDIA's driver is not installed or does not run: a node without GPUs."""


class Handle(NamedTuple):
    """NVML's handle of a GPU, valid until NVML is restarted. ``number``: NVML's index."""

    pci: str
    number: int
    device: Any


def find_library(root: Path) -> Path | None:
    """``libnvidia-ml.so.1`` under a driver's root."""
    candidates = (root / folder / SONAME for folder in LIBRARY_FOLDERS)
    return next((path for path in candidates if path.exists()), None)


class Library:
    """NVML of a driver root, started when it is first needed.

    Not thread-safe: its owner must call it from one thread. ``root``: where the driver is installed, ``/`` on most
    hosts; for ``/`` the dynamic linker also finds the library in other folders.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._nvml: Any = None
        #: Number of times NVML was started: handles of an earlier start are invalid.
        self.start_count = 0

    @property
    def nvml(self) -> Any:
        """The ``pynvml`` module, with the library started. Raises NvmlUnavailable."""
        if self._nvml is None:
            self._nvml = self._start()
            self.start_count += 1
        return self._nvml

    @property
    def is_running(self) -> bool:
        """Whether NVML is started."""
        return self._nvml is not None

    def _start(self) -> ModuleType:
        try:
            require("using NVIDIA's GPUs", "nvidia", modules=("pynvml",))
        except MissingExtraError as error:
            raise NvmlUnavailable(str(error)) from None
        import pynvml

        path = find_library(self._root)
        if path is None and self._root != Path("/"):
            raise NvmlUnavailable(f"{SONAME} not found under {self._root}")
        try:
            library = CDLL(str(path or SONAME))
        except OSError as error:
            raise NvmlUnavailable(f"{SONAME} cannot be loaded: {error}") from None
        # Unless a library is set, the module loads the system's. Drop function pointers into a different library.
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NvmlUnavailable(f"NVML cannot be initialized: {error}") from None
        module: ModuleType = pynvml
        return module

    def stop(self) -> None:
        """Stop NVML; the next call starts it again, with the GPUs at that time."""
        if self._nvml is not None:
            with suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()
            self._nvml = None

    def release(self, pci: str) -> None:
        """Close all GPUs, so that the kernel can unbind the one at ``pci`` from its driver."""
        with suppress(NvmlUnavailable, GpuLost):
            # Persistence mode would keep the driver initialized on it.
            self.try_call(self.nvml.nvmlDeviceSetPersistenceMode, self.handle(pci).device, 0)
        self.stop()

    def try_call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function; None if the driver reports an error."""
        try:
            return function(*args, **kwargs)
        except self.nvml.NVMLError:
            return None

    def call(self, action: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function. Raises HardwareError with the action and NVML's error."""
        try:
            return function(*args, **kwargs)
        except (self.nvml.NVMLError_GpuIsLost, self.nvml.NVMLError_GpuNotFound) as error:
            raise GpuLost(f"{action}: {error}") from None
        except self.nvml.NVMLError as error:
            raise HardwareError(f"{action}: {error}") from None

    def handles(self) -> tuple[Handle, ...]:
        """The GPUs, by PCI address, without those that do not report it because they fell off the bus."""
        nvml = self.nvml
        handles = []
        for number in range(self.try_call(nvml.nvmlDeviceGetCount) or 0):
            device = self.try_call(nvml.nvmlDeviceGetHandleByIndex, number)
            pci = None if device is None else self.try_call(nvml.nvmlDeviceGetPciInfo, device)
            if pci is not None:
                handles.append(Handle(address(text(pci.busId)), number, device))
        return tuple(sorted(handles, key=lambda handle: handle.pci))

    def handle(self, pci: str) -> Handle:
        """The GPU at a PCI address. Raises GpuLost."""
        for handle in self.handles():
            if handle.pci == pci:
                return handle
        raise GpuLost(f"GPU {pci}: not found by NVML")


def text(value: str | bytes | None) -> str:
    """Decode a string of NVML, which is bytes in old versions; empty if unknown."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def address(bus_id: str) -> str:
    """Normalize a PCI address: lower case, with a domain of four digits where NVML has eight.

    >>> address("00000000:0F:00.0"), address("00010000:0F:00.0")
    ('0000:0f:00.0', '00010000:0f:00.0')
    """
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:] if domain[:-4].strip('0') == '' else domain}:{rest}"
