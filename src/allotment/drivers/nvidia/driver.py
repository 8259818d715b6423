"""NVIDIA's driver: whole GPUs, MIG devices, shares of GPUs and GPUs for virtual machines, on any hardware.

Everything is decided in :mod:`.planning`, before hardware is touched; what is done and undone is in :mod:`.mig`,
:mod:`.sharing`, :mod:`.shared` and :mod:`.vfio`. The hardware is NVML's or a simulation; nothing here can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits, merge
from allotment.drivers.driver import (
    AllocatedClaim,
    ClaimError,
    DeviceEvent,
    DevicePool,
    DevicesChanged,
    HealthUpdate,
    PreparedClaim,
    ReadyDevice,
)
from allotment.drivers.nvidia import mig, sharing, vfio
from allotment.drivers.nvidia.config import (
    ALL_ON,
    CONFIGS,
    Config,
    FeatureGates,
    GpuConfig,
    MigDeviceConfig,
    VfioDeviceConfig,
    validate,
)
from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError, MigDevice, Unmonitored, Xid
from allotment.drivers.nvidia.health import GpuHealth
from allotment.drivers.nvidia.inventory import NodeInventory, kind_of
from allotment.drivers.nvidia.orphan_cleanup import remove_orphans
from allotment.drivers.nvidia.plan import Kind, Plan, PlannedDevice, decode, decode_known
from allotment.drivers.nvidia.planner import check_overlap, plan_claim
from allotment.fleet.modes import DynamicMig, NvidiaMode, Shared
from allotment.fleet.nvidia import DRIVER
from allotment.fleet.nvidia.published_devices import Group, offering
from allotment.model.resource import DeviceAttribute
from allotment.model.trees import Tree

_SUITED: Final[Mapping[Kind, type]] = {"gpu": GpuConfig, "mig": MigDeviceConfig, "vfio": VfioDeviceConfig}


class NvidiaDriver:
    """The driver of one node. ``mode``: what becomes of its GPUs."""

    def __init__(self, hardware: Hardware, mode: NvidiaMode, *, gates: FeatureGates = ALL_ON) -> None:
        self.hardware = hardware
        self.mode = mode
        self.gates = gates
        self._inventory = NodeInventory()
        self._groups: Sequence[Group] = ()
        self._troubles: dict[str, GpuHealth] = {}
        self._settings = asyncio.Lock()

    @property
    def name(self) -> str:
        """``gpu.nvidia.com``."""
        return DRIVER

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """GpuConfig, MigDeviceConfig and VfioDeviceConfig."""
        return CONFIGS

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether parameters are for a device's kind, which its name tells."""
        kind = kind_of(device)
        return kind is not None and isinstance(config, _SUITED[kind])

    def validate(self, config: Config) -> None:
        """Check parameters by themselves. Raises Refused."""
        validate(config, self.gates)

    # --- what there is ------------------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        """One pool: the node's GPUs as the mode has them. Raises HardwareError."""
        gpus = await self.hardware.gpus()
        on_demand = isinstance(self.mode, DynamicMig)
        made: dict[str, tuple[MigDevice, ...]] = {}
        for gpu in gpus:
            if gpu.mig_enabled and not on_demand:
                try:
                    made[gpu.pci] = await self.hardware.mig_devices(gpu.pci)
                except GpuLost:
                    # Still published, for its taint to be seen.
                    made[gpu.pci] = self._inventory.mig_devices.get(gpu.pci, ())
        self._inventory = NodeInventory(gpus, made, on_demand)
        found = offering(gpus, self.mode, made)
        self._groups = found.groups
        return (DevicePool(found.groups, found.counters),)

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """Troubles of GPUs as conditions of their devices, and what comes and goes."""
        async for event in self.hardware.events():
            if isinstance(event, Xid | Unmonitored):
                trouble = self._troubles.get(event.pci, GpuHealth()).with_event(event)
                self._troubles[event.pci] = trouble
                for condition in self._conditions(event.pci, trouble):
                    yield condition
                continue
            yield DevicesChanged()
            there = {gpu.pci for gpu in await self.hardware.gpus()}
            for pci in tuple(self._troubles):
                # A GPU that is gone takes its troubles with it: should it come back, it has been reset.
                if pci in event.recovered or pci not in there:
                    del self._troubles[pci]
                    for condition in self._conditions(pci, GpuHealth()):
                        yield condition

    def _conditions(self, pci: str, trouble: GpuHealth) -> list[HealthUpdate]:
        # By its name: an address with a long domain is no attribute.
        return [
            HealthUpdate(device.name, trouble.status, trouble.message, trouble.taints)
            for group in self._groups
            for device in group
            if (gpu := self._inventory.gpu_of(device.name)) is not None and gpu.pci == pci
        ]

    # --- claims -------------------------------------------------------------------------------------------------------

    def plan(self, claim: AllocatedClaim) -> Tree:
        """What preparing will do. Raises Refused."""
        plan = plan_claim(claim, self._inventory, enforced=isinstance(self.mode, Shared))
        check_overlap(plan, decode_known(claim.other_plans))
        return plan.to_tree()

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Do it. Raises Refused."""
        what = decode(plan)
        try:
            return await self._prepare(what)
        except HardwareError as error:
            devices = ", ".join(dict.fromkeys(held.device for held in what.devices))
            raise ClaimError(f"preparing {devices}: {error}") from error

    async def _prepare(self, plan: Plan) -> PreparedClaim:
        groups = await vfio.bind_to_vfio(self.hardware, plan)
        if isinstance(self.mode, DynamicMig):
            # It goes off with the last MIG device, unless somebody (a monitor) had the GPU open just then.
            for held in plan.devices:
                if held.kind == "gpu" and not held.admin:
                    await self.hardware.disable_mig(held.pci)
        # A claim may look at what it uses: then it is made before it is looked at, and using it is what counts.
        pieces = {
            position: await mig.ensure_mig_device(self.hardware, held)
            for position, held in sorted(enumerate(plan.devices), key=lambda each: each[1].admin)
            if held.kind == "mig"
        }
        uuids = {position: held.uuid for position, held in enumerate(plan.devices)}
        uuids |= {position: piece.uuid for position, piece in pieces.items()}
        async with self._setting(plan):
            await sharing.apply_sharing(self.hardware, plan, uuids)
        devices: dict[tuple[str, str, str], ReadyDevice] = {}
        for position, held in enumerate(plan.devices):
            if held.admin and (held.pool, held.device, held.share_id) in devices:
                continue
            if position in groups:
                group = groups[position]
                edits = self.hardware.vfio_edits(held.pci, group, api_device=held.api, iommu_fd=held.iommu_fd)
                ready = ReadyDevice(edits, {"type": "vfio", "pciBusID": held.pci, "iommuGroup": group})
            else:
                ready = self._ready(plan, position, held, pieces.get(position))
            devices[held.pool, held.device, held.share_id] = ready
        only_virtual_machines = all(held.kind == "vfio" for held in plan.devices)
        return PreparedClaim(devices, ContainerEdits() if only_virtual_machines else self.hardware.common_edits())

    def _setting(self, plan: Plan) -> AbstractAsyncContextManager[object]:
        """The turn of who sets what claims on one GPU have in common.

        Turns come in the order of asking, and a claim is known to those that are undone after it was planned. So one
        that comes while another goes has its own settings in the end, whether they were the other's or not.
        """
        return self._settings if plan.time_slices and any(held.share_id for held in plan.devices) else nullcontext()

    def _ready(self, plan: Plan, position: int, held: PlannedDevice, piece: MigDevice | None) -> ReadyDevice:
        hardware = self.hardware
        daemon = plan.daemon_of(position)
        edits = [hardware.gpu_edits(held.pci) if piece is None else hardware.mig_edits(piece)]
        data: Tree = {"type": held.kind, "uuid": held.uuid if piece is None else piece.uuid, "pciBusID": held.pci}
        if daemon is not None:
            edits.append(hardware.mps_edits(daemon.key))
            data["sharing"] = {"strategy": "MPS", "controlDaemon": daemon.key}
        elif any(held.pci in each.gpus for each in plan.time_slices) and not held.admin:
            data["sharing"] = {"strategy": "TimeSlicing"}
        if daemon is not None and daemon.limit is not None:
            data["sharing"]["memoryLimit"] = f"{daemon.limit}Mi"
        edits.append(
            hardware.grant_edits(plan.claim, held.pci if piece is None else piece, daemon.key if daemon else "")
        )
        # A MIG device on demand has its UUID only now; of the others it is published.
        return ReadyDevice(merge(edits), data, {"uuid": DeviceAttribute(string=data["uuid"])} if data["uuid"] else {})

    async def ensure_running(self, plan: Tree) -> None:
        """Start control daemons that have died, with the driver's own container for one. Raises Refused.

        Also where a MIG device is gone: one made anew would be another than the claim's containers were told of.
        """
        what = decode(plan)
        try:
            uuids = {
                position: (await mig.find_mig_device(self.hardware, held)).uuid if held.kind == "mig" else held.uuid
                for position, held in enumerate(what.devices)
            }
            running = await self.hardware.mps_daemons() if what.daemons else frozenset()
            for daemon in what.daemons:
                if daemon.key not in running:
                    await sharing.start_daemon(self.hardware, what, daemon, uuids)
        except HardwareError as error:
            raise ClaimError(f"claim {what.claim} was prepared, and now: {error}") from error

    async def sweep(self, staying: Sequence[Tree]) -> None:
        """Undo what earlier processes made, but for these plans. Raises Refused."""
        known = tuple(decode_known(staying))
        if len(known) < len(staying):
            raise ClaimError("what is on the GPUs stays: there are claims whose plans another version has written")
        try:
            await remove_orphans(self.hardware, known, on_demand=isinstance(self.mode, DynamicMig))
        except HardwareError as error:
            raise ClaimError(str(error)) from error

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Undo all that was done of a plan; what fails does not keep the rest from being undone. Raises Refused."""
        what, staying = decode(plan), tuple(decode_known(others))
        hardware = self.hardware
        failed: list[str] = []

        async def undo(step: Awaitable[object]) -> None:
            try:
                await step
            except GpuLost:
                pass  # and what was set or made on it is gone with it
            except HardwareError as error:
                failed.append(str(error))

        slices, modes = sharing.to_reset(what, staying)
        async with self._setting(what):
            for daemon in what.daemons:
                await undo(hardware.stop_mps(daemon.key))
            for pci in modes:
                await undo(hardware.set_compute_mode(pci, "DEFAULT"))
            for pci in slices:
                await undo(hardware.set_time_slice(pci, 0))
        for held in mig.to_destroy(what, staying):
            await undo(hardware.destroy_mig(held.pci, held.profile_id, held.start))
        for pci in vfio.to_release(what, staying):
            await undo(hardware.bind_vfio(pci, False))
        if failed:
            raise ClaimError(f"unpreparing claim {what.claim}: {'; '.join(failed)}")
