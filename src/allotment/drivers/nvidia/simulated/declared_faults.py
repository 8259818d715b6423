"""Applies faults declared as text to simulated GPUs: ``gpu-3=gone,gpu-0=xid-79,gpu-1=lost``."""

from __future__ import annotations

import re
from typing import Final

from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware

_XID: Final = re.compile(r"xid-([1-9][0-9]{0,3})")


class DeclaredFaults:
    """The declared faults of one node."""

    def __init__(self, hardware: SimulatedHardware) -> None:
        self._hardware = hardware
        self._faults: dict[str, str] = {}

    def apply(self, text: str) -> None:
        """Set the faults in the text and repair all others; the same text again has no effect. Raises ValueError."""
        faults = _parse(text)
        gpus = {f"gpu-{gpu.minor}": gpu for gpu in self._hardware.all_gpus()}
        for name in faults:
            if name not in gpus:
                raise ValueError(f"no GPU {name}; this node has {', '.join(gpus)}")
        previous, self._faults = self._faults, faults
        for name, fault in previous.items():
            if faults.get(name) == fault:
                continue
            if fault == "gone":
                self._hardware.add(gpus[name])
            else:
                self._hardware.repair(gpus[name].pci)
        for name, fault in faults.items():
            if previous.get(name) == fault:
                continue
            if fault == "gone":
                self._hardware.remove(gpus[name].pci)
            elif fault == "lost":
                self._hardware.lose(gpus[name].pci)
            else:
                self._hardware.report_xid(gpus[name].pci, int(fault.removeprefix("xid-")))


def _parse(text: str) -> dict[str, str]:
    faults: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, fault = part.partition("=")
        if fault not in ("gone", "lost") and not _XID.fullmatch(fault):
            raise ValueError(f"expected NAME=gone, NAME=lost or NAME=xid-NUMBER, found {part!r}")
        faults[name] = fault
    return faults
