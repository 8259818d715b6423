"""Undoes changes of earlier processes for which no plan is left.

Only what the driver alone creates is removed: MPS daemons in its own folder, and MIG devices if they are created for
claims. A fixed MIG layout belongs to an administrator. The hardware refuses to destroy what is in use, so that stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from itertools import combinations

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError
from allotment.drivers.nvidia.plan import Plan, daemon_key
from allotment.fleet.nvidia import Gpu


async def remove_orphans(hardware: Hardware, plans: Sequence[Plan], *, on_demand: bool) -> None:
    """Undo everything that is in none of the plans. ``on_demand``: MIG devices are created for claims. Raises
    ClaimError.
    """
    failed: list[str] = []

    async def undo(operation: Awaitable[object]) -> None:
        try:
            await operation
        except GpuLost:
            pass  # what was on it is gone, too
        except HardwareError as error:
            failed.append(str(error))

    gpus = await hardware.gpus()
    used = {device.pci for plan in plans for device in plan.devices if device.kind == "gpu" and not device.admin}
    known_keys = {daemon.key for plan in plans for daemon in plan.daemons}
    for key in sorted(await hardware.mps_daemons() - known_keys):
        await undo(hardware.stop_mps(key))
        for pci in gpus_of_daemon(key, gpus):
            if pci not in used:
                await undo(hardware.set_compute_mode(pci, "DEFAULT"))
    if on_demand:
        planned = {
            (device.pci, device.profile_id, device.start)
            for plan in plans
            for device in plan.devices
            if device.kind == "mig"
        }
        for gpu in gpus:
            for mig_device in await hardware.mig_devices(gpu.pci) if gpu.mig_enabled else ():
                if (mig_device.pci, mig_device.profile_id, mig_device.start) not in planned:
                    await undo(hardware.destroy_mig(mig_device.pci, mig_device.profile_id, mig_device.start))
    if failed:
        raise ClaimError("; ".join(failed))


def gpus_of_daemon(key: str, gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """PCI addresses of the whole GPUs that a daemon owned, found from its key; none for a daemon of MIG devices."""
    claim = key.rpartition("-")[0]
    uuids = {gpu.uuid: gpu.pci for gpu in gpus}
    for count in range(1, len(uuids) + 1):
        for candidates in combinations(sorted(uuids), count):
            if daemon_key(claim, candidates) == key:
                return tuple(uuids[uuid] for uuid in candidates)
    return ()
