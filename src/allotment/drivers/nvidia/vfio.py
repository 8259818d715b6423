"""GPUs for virtual machines: taken from the vendor's driver, and given back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.driver import Refused
from allotment.drivers.nvidia.hardware import Hardware
from allotment.drivers.nvidia.plan import Plan


async def hand_over(hardware: Hardware, plan: Plan) -> Mapping[int, int]:
    """Bind the GPUs of a claim to ``vfio-pci``; their IOMMU groups by position. Raises Refused, HardwareError."""
    beside = frozenset(held.pci for held in plan.held if held.kind == "vfio")
    groups = {
        position: await hardware.bind_vfio(held.pci, True, beside=beside)
        for position, held in enumerate(plan.held)
        if held.kind == "vfio"
    }
    if len(set(groups.values())) > 1:
        # Where it was not known before.
        raise several({plan.held[position].device: group for position, group in groups.items()})
    return groups


def several(groups: Mapping[str, int]) -> Refused:
    """Of a claim whose devices are in several IOMMU groups."""
    devices = ", ".join(f"{device} in {group}" for device, group in groups.items())
    return Refused(
        f"a claim can have GPUs of one IOMMU group only, and this one has {devices}; give each GPU its own claim",
        permanent=True,
    )


def to_give_back(plan: Plan, others: Iterable[Plan]) -> list[str]:
    """GPUs that only this plan has handed over."""
    kept = {held.pci for other in others for held in other.held if held.kind == "vfio"}
    return [held.pci for held in plan.held if held.kind == "vfio" and held.pci not in kept]
