"""GPUs and virtual functions for virtual machines: taken from their kernel drivers, and given back.

An IOMMU group goes to a virtual machine as a whole. So a plan binds all GPUs of the groups of what a claim was given,
and knows of each which driver had it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.amd.config import VfioDeviceConfig
from allotment.drivers.amd.hardware import Hardware, HardwareError
from allotment.drivers.amd.pci_binding import VFIO
from allotment.drivers.amd.plan import PlannedDevice, Plan
from allotment.drivers.driver import AllocatedDevice, ClaimError
from allotment.fleet.amd import Function
from allotment.model.trees import Tree


def plan_claim(
    granted: Iterable[AllocatedDevice], functions: Mapping[str, Function], before: Mapping[str, str], others: Iterable[Plan]
) -> Plan:
    """What a claim's virtual machine gets. ``functions``: by the names of their devices. ``before``: the kernel drivers
    that have them while no claim does, by PCI address. Raises Refused.
    """
    held = tuple(_held(one, functions) for one in granted)
    groups = {functions[one.device].group for one in held}
    bound = {one.pci: before.get(one.pci, "") for one in functions.values() if one.group in groups}
    for other in others:
        for theirs in other.devices:
            if theirs.pci in bound or other.initial_drivers.keys() & bound.keys():
                raise ClaimError(
                    f"device {held[0].pool}/{held[0].device}: {theirs.device} of the same GPU or IOMMU group is still "
                    "prepared for another claim; it is free when that claim's pods on this node have ended"
                )
    return Plan(held, initial_drivers=bound)


def _held(granted: AllocatedDevice, functions: Mapping[str, Function]) -> PlannedDevice:
    device = f"device {granted.pool}/{granted.device}"
    one = functions.get(granted.device)
    if one is None:
        raise ClaimError(f"{device} is not on this node (any more)")
    if granted.admin_access:
        raise ClaimError(
            f"{device}: admin access to a GPU for virtual machines would take it away from others; ask for it without",
            permanent=True,
        )
    config = granted.config if isinstance(granted.config, VfioDeviceConfig) else VfioDeviceConfig()
    number = int(granted.device.rpartition("-")[2])
    iommu_fd = config.iommu.backend_policy == "PreferIommuFD"
    return PlannedDevice(granted.pool, granted.device, one.pci, granted.share_id, number=number, iommu_fd=iommu_fd)


async def bind_to_vfio(hardware: Hardware, plan: Plan) -> None:
    """Bind all that the plan names to ``vfio-pci``. Raises Refused, HardwareError."""
    for pci in plan.initial_drivers:
        strange = [mate for mate in await hardware.iommu_group_peers(pci) if mate not in plan.initial_drivers]
        if strange:
            raise ClaimError(
                f"GPU {pci} cannot be handed to a virtual machine: its IOMMU group has other devices in use: "
                f"{', '.join(strange)}"
            )
    for pci in plan.initial_drivers:
        await hardware.bind(pci, VFIO)


async def restore_drivers(hardware: Hardware, plan: Plan, others: Iterable[Plan]) -> list[str]:
    """Let those drivers have them that had them before; what could not be done. What is gone needs nothing."""
    kept = {pci for other in others for pci in other.initial_drivers}
    there = {one.pci for one in await hardware.functions()}
    failed = []
    for pci, driver in plan.initial_drivers.items():
        if pci in there and pci not in kept:
            try:
                await hardware.bind(pci, driver)
            except HardwareError as error:
                failed.append(str(error))
    return failed


def claim_data(held: PlannedDevice, functions: Mapping[str, Function]) -> Tree:
    """For a claim's status."""
    one = functions[held.device]
    return {"type": "vfio", "pciBusID": one.pci, "iommuGroup": str(one.group)}
