"""GPUs and virtual functions for virtual machines: bound to ``vfio-pci`` for a claim, and restored after it.

A virtual machine gets an IOMMU group as a whole, so a plan binds all GPUs in the groups of the claim's devices, and
stores the initial kernel driver of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.amd.hardware import Hardware, HardwareError
from allotment.drivers.amd.pci_binding import VFIO
from allotment.drivers.amd.plan import Plan, PlannedDevice
from allotment.drivers.driver import AllocatedDevice, ClaimError
from allotment.fleet.amd import Function
from allotment.model.trees import Tree
from allotment.vocabulary.parameters.amd import VfioDeviceConfig


def plan_claim(
    allocated: Iterable[AllocatedDevice],
    functions: Mapping[str, Function],
    initial_drivers: Mapping[str, str],
    others: Iterable[Plan],
) -> Plan:
    """Return the plan of a claim for a virtual machine. ``functions``: PCI functions by device name.
    ``initial_drivers``: their kernel drivers without claims, by PCI address. Raises ClaimError.
    """
    devices = tuple(_planned_device(device, functions) for device in allocated)
    groups = {functions[device.device].group for device in devices}
    bound = {f.pci: initial_drivers.get(f.pci, "") for f in functions.values() if f.group in groups}
    for other in others:
        for other_device in other.devices:
            if other_device.pci in bound or other.initial_drivers.keys() & bound.keys():
                raise ClaimError(
                    f"device {devices[0].pool}/{devices[0].device}: {other_device.device} on the same GPU or in the "
                    "same IOMMU group is still prepared for another claim; wait until that claim's pods on this node "
                    "have ended"
                )
    return Plan(devices, initial_drivers=bound)


def _planned_device(allocated: AllocatedDevice, functions: Mapping[str, Function]) -> PlannedDevice:
    device = f"device {allocated.pool}/{allocated.device}"
    function = functions.get(allocated.device)
    if function is None:
        raise ClaimError(f"{device} not found on this node")
    if allocated.admin_access:
        raise ClaimError(
            f"{device}: admin access to a GPU for virtual machines is not possible; request it without admin access",
            permanent=True,
        )
    config = allocated.config if isinstance(allocated.config, VfioDeviceConfig) else VfioDeviceConfig()
    number = int(allocated.device.rpartition("-")[2])
    iommu_fd = config.iommu.backend_policy == "PreferIommuFD"
    return PlannedDevice(
        allocated.pool, allocated.device, function.pci, allocated.share_id, number=number, iommu_fd=iommu_fd
    )


async def bind_to_vfio(hardware: Hardware, plan: Plan) -> None:
    """Bind the plan's functions to ``vfio-pci``. Raises ClaimError, HardwareError."""
    for pci in plan.initial_drivers:
        foreign = [peer for peer in await hardware.iommu_group_peers(pci) if peer not in plan.initial_drivers]
        if foreign:
            raise ClaimError(
                f"GPU {pci} cannot be passed to a virtual machine: other devices in its IOMMU group are in use: "
                f"{', '.join(foreign)}"
            )
    for pci in plan.initial_drivers:
        await hardware.bind(pci, VFIO)


async def restore_drivers(hardware: Hardware, plan: Plan, others: Iterable[Plan]) -> list[str]:
    """Bind the plan's functions to their initial drivers; returns the errors. Removed functions are skipped."""
    still_bound = {pci for other in others for pci in other.initial_drivers}
    present = {function.pci for function in await hardware.functions()}
    failed = []
    for pci, driver in plan.initial_drivers.items():
        if pci in present and pci not in still_bound:
            try:
                await hardware.bind(pci, driver)
            except HardwareError as error:
                failed.append(str(error))
    return failed


def claim_data(device: PlannedDevice, functions: Mapping[str, Function]) -> Tree:
    """A device's data for the claim's status."""
    function = functions[device.device]
    return {"type": "vfio", "pciBusID": function.pci, "iommuGroup": str(function.group)}
