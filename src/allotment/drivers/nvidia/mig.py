"""MIG devices of a claim: made for it, or looked up where an administrator made them."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import Hardware, MigDevice
from allotment.drivers.nvidia.plan import Plan, PlannedDevice


async def ensure_mig_device(hardware: Hardware, device: PlannedDevice) -> MigDevice:
    """The MIG device that a claim holds; made now if it is one that is made for claims. Raises Refused."""
    if device.dynamic:
        return await hardware.create_mig(device.pci, device.profile_id, device.start)
    return await find_mig_device(hardware, device)


async def find_mig_device(hardware: Hardware, device: PlannedDevice) -> MigDevice:
    """The MIG device that a claim holds, which must be there. Raises Refused."""
    for existing in await hardware.mig_devices(device.pci):
        if (existing.profile_id, existing.start) == (device.profile_id, device.start):
            return existing
    reason = (
        "it went with a reset of the GPU, or somebody destroyed it; delete the claim's pods, so that it is made anew"
        if device.dynamic
        else "it was destroyed after it was published"
    )
    raise ClaimError(
        f"device {device.device}: no MIG device of profile {device.profile_id} is at {device.start} of GPU {device.pci}; {reason}"
    )


def to_destroy(plan: Plan, others: Iterable[Plan]) -> list[PlannedDevice]:
    """The MIG devices that exist for this plan only."""
    still_needed = {
        (device.pci, device.profile_id, device.start) for other in others for device in other.devices if device.dynamic
    }
    return [
        device
        for device in plan.devices
        if device.dynamic and (device.pci, device.profile_id, device.start) not in still_needed
    ]
