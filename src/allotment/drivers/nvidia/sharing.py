"""How the programs of a claim share its GPUs: setting it, and setting it back.

Programs that name one claim share its devices anyway, in turns; ``TimeSlicing`` sets how long a turn is, ``MPS`` lets
them run side by side, with a control daemon for each claim and set of parameters that owns its GPUs meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.nvidia.config import memory_limits
from allotment.drivers.nvidia.hardware import Hardware, MpsDaemon
from allotment.drivers.nvidia.plan import Plan, PlannedDaemon


async def apply_sharing(hardware: Hardware, plan: Plan, uuids: Mapping[int, str]) -> None:
    """Set what a plan says. ``uuids``: of the devices held, by position. Raises Refused, HardwareError."""
    for time_slice in plan.time_slices:
        for pci in time_slice.gpus:
            await hardware.set_time_slice(pci, time_slice.interval)
    for daemon in plan.daemons:
        await start_daemon(hardware, plan, daemon, uuids)


async def start_daemon(hardware: Hardware, plan: Plan, daemon: PlannedDaemon, uuids: Mapping[int, str]) -> None:
    """Start one of a plan's daemons. Raises Refused, HardwareError."""
    for pci in plan.gpus_of(daemon):
        # Exclusive first: nobody may slip in before the daemon is there. MIG devices have no mode of their own.
        await hardware.set_compute_mode(pci, "EXCLUSIVE_PROCESS" if daemon.exclusive else "DEFAULT")
    await hardware.start_mps(control_daemon(daemon, uuids))


def control_daemon(daemon: PlannedDaemon, uuids: Mapping[int, str]) -> MpsDaemon:
    """A plan's daemon once the UUIDs of all its devices are known. Raises Refused."""
    members = tuple(dict.fromkeys(sorted(uuids[position] for position in daemon.members)))
    limits = memory_limits(members, daemon.limit, daemon.limits)
    return MpsDaemon(daemon.key, members, daemon.threads, limits, daemon.multi_user)


def to_reset(plan: Plan, others: Iterable[Plan]) -> tuple[list[str], list[str]]:
    """GPUs whose time slice, and GPUs whose compute mode goes back to the default: those that no other claim holds."""
    still_used = {
        device.pci for other in others for device in other.devices if device.kind == "gpu" and not device.admin
    }
    slices = [pci for each in plan.time_slices if each.interval for pci in each.gpus]
    modes = [pci for each in plan.daemons if each.exclusive for pci in plan.gpus_of(each)]
    return (
        [pci for pci in dict.fromkeys(slices) if pci not in still_used],
        [pci for pci in dict.fromkeys(modes) if pci not in still_used],
    )
