"""Health of AMD GPUs from the kernel's files: error counters, and GPUs that no longer answer.

The module counts errors for each block of a GPU (``ras/umc_err_count``: ``ue: 0``, ``ce: 3``). Corrected errors are
normal; an uncorrectable one means that a computation was wrong or was killed. A reset of the GPU clears the counters,
and the GPU is healthy again. A GPU that has fallen off the bus is still listed in sysfs, but its PCI configuration
reads as all ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from allotment.drivers.amd.hardware import GpuHealth
from allotment.drivers.amd.kernel_files import KernelFiles
from allotment.drivers.amd.sysfs import ADDRESS, GPUS

_COUNTER: Final = re.compile(r"(\w+)_err_count")
_UNCORRECTED: Final = re.compile(r"^ue: *([0-9]+)", re.MULTILINE)
#: The vendor id of a device that does not answer: two bytes of ones, which do not decode as text.
_ALL_ONES: Final = "\N{REPLACEMENT CHARACTER}" * 2


def unhealthy_gpus(files: KernelFiles) -> Mapping[str, GpuHealth]:
    """The health of the unhealthy GPUs of the kernel module, by PCI address."""
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
