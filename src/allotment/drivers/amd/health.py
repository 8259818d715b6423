"""Health of AMD GPUs as Kubernetes reports it: device taints and a message."""

from __future__ import annotations

from typing import Final

from allotment.drivers.amd.hardware import GpuHealth
from allotment.drivers.driver import HealthUpdate
from allotment.model.resource import DeviceTaint

RAS_TAINT: Final = "gpu.amd.com/ras"
LOST_TAINT: Final = "gpu.amd.com/gpu-lost"


def health_update(device: str, health: GpuHealth) -> HealthUpdate:
    """The health update for a device of a GPU. The taint's value is the first block with uncorrectable errors."""
    taints = [DeviceTaint(key=LOST_TAINT, effect="NoSchedule")] if health.lost else []
    messages = ["the GPU is lost: it no longer answers"] if health.lost else []
    if health.errors:
        taints.append(DeviceTaint(key=RAS_TAINT, value=health.errors[0][0], effect="NoSchedule"))
        messages += [f"uncorrectable errors in {block}: {count}" for block, count in health.errors]
    return HealthUpdate(device, "Unhealthy" if taints else "Healthy", "; ".join(messages), tuple(taints))
