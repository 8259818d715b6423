"""MIG devices of a claim: created on demand, or looked up in an administrator's layout."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import Hardware, MigDevice
from allotment.drivers.nvidia.plan import Plan, PlannedDevice


async def ensure_mig_device(hardware: Hardware, device: PlannedDevice) -> MigDevice:
    """The MIG device of a claim, created if it is on demand. Raises ClaimError."""
    if device.dynamic:
        return await hardware.create_mig(device.pci, device.profile_id, device.start)
    return await find_mig_device(hardware, device)


async def find_mig_device(hardware: Hardware, device: PlannedDevice) -> MigDevice:
    """The existing MIG device of a claim. Raises ClaimError."""
    for existing in await hardware.mig_devices(device.pci):
        if (existing.profile_id, existing.start) == (device.profile_id, device.start):
            return existing
    reason = (
        "it was destroyed, for example by a GPU reset; delete the claim's pods so that it is created again"
        if device.dynamic
        else "it was destroyed after it was published"
    )
    raise ClaimError(
        f"device {device.device}: no MIG device with profile {device.profile_id} at start {device.start} "
        f"on GPU {device.pci}; {reason}"
    )


def to_destroy(plan: Plan, others: Iterable[Plan]) -> list[PlannedDevice]:
    """The MIG devices that were created for this plan only."""
    still_needed = {
        (device.pci, device.profile_id, device.start) for other in others for device in other.devices if device.dynamic
    }
    return [
        device
        for device in plan.devices
        if device.dynamic and (device.pci, device.profile_id, device.start) not in still_needed
    ]
