"""GPUs for virtual machines: bound to ``vfio-pci`` for a claim, and released after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import Hardware
from allotment.drivers.nvidia.plan import Plan


async def bind_to_vfio(hardware: Hardware, plan: Plan) -> Mapping[int, int]:
    """Bind a claim's GPUs to ``vfio-pci``; returns their IOMMU groups by position. Raises ClaimError, HardwareError."""
    together_with = frozenset(device.pci for device in plan.devices if device.kind == "vfio")
    groups = {
        position: await hardware.bind_vfio(device.pci, True, together_with=together_with)
        for position, device in enumerate(plan.devices)
        if device.kind == "vfio"
    }
    if len(set(groups.values())) > 1:
        # The groups were not known when the plan was made.
        raise several_groups_error({plan.devices[position].device: group for position, group in groups.items()})
    return groups


def several_groups_error(groups: Mapping[str, int]) -> ClaimError:
    """The error for a claim with devices in several IOMMU groups."""
    devices = ", ".join(f"{device} in group {group}" for device, group in groups.items())
    return ClaimError(
        f"all GPUs of a claim must be in one IOMMU group, found {devices}; request each GPU in a separate claim",
        permanent=True,
    )


def to_release(plan: Plan, others: Iterable[Plan]) -> list[str]:
    """PCI addresses of the GPUs that only this plan bound to ``vfio-pci``."""
    still_used = {device.pci for other in others for device in other.devices if device.kind == "vfio"}
    return [device.pci for device in plan.devices if device.kind == "vfio" and device.pci not in still_used]
