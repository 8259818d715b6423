"""Whether GPUs are well, by what the kernel tells without further software: error counters, and who answers.

The module counts errors for each block of a GPU (``ras/umc_err_count``: ``ue: 0``, ``ce: 3``). Those that were
corrected are part of life; one that was not means that something computed wrongly or was ended. The counters begin
anew when the GPU is reset, which is when it is well again. A GPU that has fallen off the bus is still in its place in
sysfs, but nobody answers there: its PCI configuration is all ones.
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
#: The vendor of a device that does not answer, as text that is none: two bytes of ones.
_ALL_ONES: Final = "\N{REPLACEMENT CHARACTER}" * 2


def unhealthy_gpus(files: KernelFiles) -> Mapping[str, GpuHealth]:
    """What is wrong with the GPUs that the module drives, by PCI address; nothing of those that are well."""
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
