"""What an earlier process made of which no plan is left: found on the hardware, and undone.

Only what nobody but the driver makes: MPS daemons in its own folder, and where it makes MIG devices for claims, the
MIG devices. Those of a fixed layout are an administrator's. What is in use is refused by the hardware, and stays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from itertools import combinations

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError
from allotment.drivers.nvidia.plan import Plan, daemon_key
from allotment.fleet.nvidia import Gpu


async def remove_orphans(hardware: Hardware, staying: Sequence[Plan], *, on_demand: bool) -> None:
    """Undo all but what these plans have. ``on_demand``: MIG devices are made for claims. Raises Refused."""
    failed: list[str] = []

    async def undo(step: Awaitable[object]) -> None:
        try:
            await step
        except GpuLost:
            pass  # and what was on it is gone with it
        except HardwareError as error:
            failed.append(str(error))

    gpus = await hardware.gpus()
    held = {each.pci for plan in staying for each in plan.devices if each.kind == "gpu" and not each.admin}
    known = {daemon.key for plan in staying for daemon in plan.daemons}
    for key in sorted(await hardware.mps_daemons() - known):
        await undo(hardware.stop_mps(key))
        for pci in gpus_of_daemon(key, gpus):
            if pci not in held:
                await undo(hardware.set_compute_mode(pci, "DEFAULT"))
    if on_demand:
        kept = {(each.pci, each.profile_id, each.start) for plan in staying for each in plan.devices if each.kind == "mig"}
        for gpu in gpus:
            for device in await hardware.mig_devices(gpu.pci) if gpu.mig_enabled else ():
                if (device.pci, device.profile_id, device.start) not in kept:
                    await undo(hardware.destroy_mig(device.pci, device.profile_id, device.start))
    if failed:
        raise ClaimError("; ".join(failed))


def gpus_of_daemon(key: str, gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """The whole GPUs that a daemon owned, which its key was made of; none of a daemon for MIG devices."""
    claim = key.rpartition("-")[0]
    uuids = {gpu.uuid: gpu.pci for gpu in gpus}
    for count in range(1, len(uuids) + 1):
        for some in combinations(sorted(uuids), count):
            if daemon_key(claim, some) == key:
                return tuple(uuids[uuid] for uuid in some)
    return ()
