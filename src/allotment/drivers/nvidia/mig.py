"""MIG devices of a claim: made for it, or looked up where an administrator made them."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import Hardware, MigDevice
from allotment.drivers.nvidia.plan import Plan, PlannedDevice


async def ensure_mig_device(hardware: Hardware, held: PlannedDevice) -> MigDevice:
    """The MIG device that a claim holds; made now if it is one that is made for claims. Raises Refused."""
    if held.dynamic:
        return await hardware.create_mig(held.pci, held.profile_id, held.start)
    return await find_mig_device(hardware, held)


async def find_mig_device(hardware: Hardware, held: PlannedDevice) -> MigDevice:
    """The MIG device that a claim holds, which must be there. Raises Refused."""
    for device in await hardware.mig_devices(held.pci):
        if (device.profile_id, device.start) == (held.profile_id, held.start):
            return device
    why = (
        "it went with a reset of the GPU, or somebody destroyed it; delete the claim's pods, so that it is made anew"
        if held.dynamic
        else "it was destroyed after it was published"
    )
    raise ClaimError(
        f"device {held.device}: no MIG device of profile {held.profile_id} is at {held.start} of GPU {held.pci}; {why}"
    )


def to_destroy(plan: Plan, others: Iterable[Plan]) -> list[PlannedDevice]:
    """The MIG devices that exist for this plan only."""
    kept = {(held.pci, held.profile_id, held.start) for other in others for held in other.devices if held.dynamic}
    return [held for held in plan.devices if held.dynamic and (held.pci, held.profile_id, held.start) not in kept]
