"""What is wrong with a GPU, in words: taints for schedulers, a sentence for people."""

from __future__ import annotations

from typing import Final

from allotment.drivers.amd.hardware import GpuHealth
from allotment.drivers.driver import HealthUpdate
from allotment.model.resource import DeviceTaint

RAS_TAINT: Final = "gpu.amd.com/ras"
LOST_TAINT: Final = "gpu.amd.com/gpu-lost"


def condition(device: str, ailment: GpuHealth) -> HealthUpdate:
    """News of a device of a GPU. The taint's value is the first of its blocks that are broken."""
    taints = [DeviceTaint(key=LOST_TAINT, effect="NoSchedule")] if ailment.lost else []
    words = ["the GPU is lost: it no longer answers"] if ailment.lost else []
    if ailment.errors:
        taints.append(DeviceTaint(key=RAS_TAINT, value=ailment.errors[0][0], effect="NoSchedule"))
        words += [f"errors that could not be corrected in {block}: {count}" for block, count in ailment.errors]
    return HealthUpdate(device, "Unhealthy" if taints else "Healthy", "; ".join(words), tuple(taints))
