"""GPUs for virtual machines: taken from the vendor's driver, and given back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import Hardware
from allotment.drivers.nvidia.plan import Plan


async def bind_to_vfio(hardware: Hardware, plan: Plan) -> Mapping[int, int]:
    """Bind the GPUs of a claim to ``vfio-pci``; their IOMMU groups by position. Raises Refused, HardwareError."""
    together_with = frozenset(device.pci for device in plan.devices if device.kind == "vfio")
    groups = {
        position: await hardware.bind_vfio(device.pci, True, together_with=together_with)
        for position, device in enumerate(plan.devices)
        if device.kind == "vfio"
    }
    if len(set(groups.values())) > 1:
        # Where it was not known before.
        raise several_groups_error({plan.devices[position].device: group for position, group in groups.items()})
    return groups


def several_groups_error(groups: Mapping[str, int]) -> ClaimError:
    """Of a claim whose devices are in several IOMMU groups."""
    devices = ", ".join(f"{device} in {group}" for device, group in groups.items())
    return ClaimError(
        f"a claim can have GPUs of one IOMMU group only, and this one has {devices}; give each GPU its own claim",
        permanent=True,
    )


def to_release(plan: Plan, others: Iterable[Plan]) -> list[str]:
    """GPUs that only this plan has handed over."""
    still_used = {device.pci for other in others for device in other.devices if device.kind == "vfio"}
    return [device.pci for device in plan.devices if device.kind == "vfio" and device.pci not in still_used]
