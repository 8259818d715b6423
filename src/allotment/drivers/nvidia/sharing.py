"""Configures how the programs of a claim share its GPUs, and determines what to reset afterwards.

Programs with one claim always share its devices by time slices. ``TimeSlicing`` sets the length of a slice; ``MPS``
lets programs run concurrently, with a control daemon for each claim and set of parameters that owns its GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.drivers.nvidia.config import memory_limits
from allotment.drivers.nvidia.hardware import Hardware, MpsDaemon
from allotment.drivers.nvidia.plan import Plan, PlannedDaemon


async def apply_sharing(hardware: Hardware, plan: Plan, uuids: Mapping[int, str]) -> None:
    """Apply the sharing settings of a plan. ``uuids``: of the devices, by position. Raises ClaimError,
    HardwareError.
    """
    for time_slice in plan.time_slices:
        for pci in time_slice.gpus:
            await hardware.set_time_slice(pci, time_slice.interval)
    for daemon in plan.daemons:
        await start_daemon(hardware, plan, daemon, uuids)


async def start_daemon(hardware: Hardware, plan: Plan, daemon: PlannedDaemon, uuids: Mapping[int, str]) -> None:
    """Start one of a plan's daemons. Raises ClaimError, HardwareError."""
    for pci in plan.gpus_of(daemon):
        # Set the mode before the daemon starts, so that no other program gets the GPU. MIG devices have no mode.
        await hardware.set_compute_mode(pci, "EXCLUSIVE_PROCESS" if daemon.exclusive else "DEFAULT")
    await hardware.start_mps(control_daemon(daemon, uuids))


def control_daemon(daemon: PlannedDaemon, uuids: Mapping[int, str]) -> MpsDaemon:
    """The control daemon of a plan, with the UUIDs of its devices. Raises ClaimError."""
    members = tuple(dict.fromkeys(sorted(uuids[position] for position in daemon.members)))
    limits = memory_limits(members, daemon.limit, daemon.limits)
    return MpsDaemon(daemon.key, members, daemon.threads, limits, daemon.multi_user)


def to_reset(plan: Plan, others: Iterable[Plan]) -> tuple[list[str], list[str]]:
    """GPUs whose time slice, and GPUs whose compute mode must be reset: those that no other claim uses."""
    still_used = {
        device.pci for other in others for device in other.devices if device.kind == "gpu" and not device.admin
    }
    slices = [pci for setting in plan.time_slices if setting.interval for pci in setting.gpus]
    modes = [pci for setting in plan.daemons if setting.exclusive for pci in plan.gpus_of(setting)]
    return (
        [pci for pci in dict.fromkeys(slices) if pci not in still_used],
        [pci for pci in dict.fromkeys(modes) if pci not in still_used],
    )
