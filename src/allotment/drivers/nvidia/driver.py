"""NVIDIA's driver: whole GPUs, MIG devices, shares of GPUs and GPUs for virtual machines, on real or simulated
hardware.

:mod:`.planner` makes all decisions before hardware is changed; :mod:`.mig`, :mod:`.sharing` and :mod:`.vfio` execute
and undo them.
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

_CONFIG_TYPES: Final[Mapping[Kind, type]] = {"gpu": GpuConfig, "mig": MigDeviceConfig, "vfio": VfioDeviceConfig}


class NvidiaDriver:
    """The driver of one node. ``mode``: how the node's GPUs are published and shared."""

    def __init__(self, hardware: Hardware, mode: NvidiaMode, *, gates: FeatureGates = ALL_ON) -> None:
        self.hardware = hardware
        self.mode = mode
        self.gates = gates
        self._inventory = NodeInventory()
        self._device_groups: Sequence[Group] = ()
        self._gpu_health: dict[str, GpuHealth] = {}
        self._settings_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        return DRIVER

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return CONFIGS

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether the parameters are for the device's kind, which the device's name contains."""
        kind = kind_of(device)
        return kind is not None and isinstance(config, _CONFIG_TYPES[kind])

    def validate(self, config: Config) -> None:
        """Check parameters beyond their types. Raises ClaimError."""
        validate(config, self.gates)

    # --- discovery ----------------------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        """Return one pool with the node's GPUs in the driver's mode. Raises HardwareError."""
        gpus = await self.hardware.gpus()
        on_demand = isinstance(self.mode, DynamicMig)
        mig_devices: dict[str, tuple[MigDevice, ...]] = {}
        for gpu in gpus:
            if gpu.mig_enabled and not on_demand:
                try:
                    mig_devices[gpu.pci] = await self.hardware.mig_devices(gpu.pci)
                except GpuLost:
                    # Still published, so that its taint is visible.
                    mig_devices[gpu.pci] = self._inventory.mig_devices.get(gpu.pci, ())
        self._inventory = NodeInventory(gpus, mig_devices, on_demand)
        published = offering(gpus, self.mode, mig_devices)
        self._device_groups = published.groups
        return (DevicePool(published.groups, published.counters),)

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """Report the health of GPUs as updates of their devices, and added and removed GPUs."""
        async for event in self.hardware.events():
            if isinstance(event, Xid | Unmonitored):
                health = self._gpu_health.get(event.pci, GpuHealth()).with_event(event)
                self._gpu_health[event.pci] = health
                for update in self._health_updates(event.pci, health):
                    yield update
                continue
            yield DevicesChanged()
            present = {gpu.pci for gpu in await self.hardware.gpus()}
            for pci in tuple(self._gpu_health):
                # A removed GPU has no health state: if it is added again, it was reset.
                if pci in event.recovered or pci not in present:
                    del self._gpu_health[pci]
                    for update in self._health_updates(pci, GpuHealth()):
                        yield update

    def _health_updates(self, pci: str, health: GpuHealth) -> list[HealthUpdate]:
        # By device name: an address with a long domain is not published as an attribute.
        return [
            HealthUpdate(device.name, health.status, health.message, health.taints)
            for group in self._device_groups
            for device in group
            if (gpu := self._inventory.gpu_of(device.name)) is not None and gpu.pci == pci
        ]

    # --- claims -------------------------------------------------------------------------------------------------------

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Return the plan of a claim. Raises ClaimError."""
        plan = plan_claim(claim, self._inventory, enforced=isinstance(self.mode, Shared))
        check_overlap(plan, decode_known(claim.other_plans))
        return plan.to_tree()

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Prepare a planned claim. Raises ClaimError."""
        decoded = decode(plan)
        try:
            return await self._prepare(decoded)
        except HardwareError as error:
            devices = ", ".join(dict.fromkeys(device.device for device in decoded.devices))
            raise ClaimError(f"preparing {devices}: {error}") from error

    async def _prepare(self, plan: Plan) -> PreparedClaim:
        groups = await vfio.bind_to_vfio(self.hardware, plan)
        if isinstance(self.mode, DynamicMig):
            # MIG was disabled after the last MIG device, unless another process (such as a monitor) had the GPU open.
            for device in plan.devices:
                if device.kind == "gpu" and not device.admin:
                    await self.hardware.disable_mig(device.pci)
        # A claim can also have admin access to its own device: the device is created first, and the other use counts.
        mig_devices = {
            position: await mig.ensure_mig_device(self.hardware, device)
            for position, device in sorted(enumerate(plan.devices), key=lambda each: each[1].admin)
            if device.kind == "mig"
        }
        uuids = {position: device.uuid for position, device in enumerate(plan.devices)}
        uuids |= {position: mig_device.uuid for position, mig_device in mig_devices.items()}
        async with self._lock_shared_settings(plan):
            await sharing.apply_sharing(self.hardware, plan, uuids)
        devices: dict[tuple[str, str, str], ReadyDevice] = {}
        for position, device in enumerate(plan.devices):
            if device.admin and (device.pool, device.device, device.share_id) in devices:
                continue
            if position in groups:
                group = groups[position]
                edits = self.hardware.vfio_edits(device.pci, group, api_device=device.api, iommu_fd=device.iommu_fd)
                ready = ReadyDevice(edits, {"type": "vfio", "pciBusID": device.pci, "iommuGroup": group})
            else:
                ready = self._ready_device(plan, position, device, mig_devices.get(position))
            devices[device.pool, device.device, device.share_id] = ready
        only_virtual_machines = all(device.kind == "vfio" for device in plan.devices)
        return PreparedClaim(devices, ContainerEdits() if only_virtual_machines else self.hardware.common_edits())

    def _lock_shared_settings(self, plan: Plan) -> AbstractAsyncContextManager[object]:
        """The lock for settings that claims on one GPU share.

        The lock is fair, and a claim is visible to claims that are unprepared after it was planned. So a claim that is
        prepared while another is unprepared ends with its own settings, even if the other claim had the same ones.
        """
        return (
            self._settings_lock
            if plan.time_slices and any(device.share_id for device in plan.devices)
            else nullcontext()
        )

    def _ready_device(
        self, plan: Plan, position: int, device: PlannedDevice, mig_device: MigDevice | None
    ) -> ReadyDevice:
        hardware = self.hardware
        daemon = plan.daemon_of(position)
        edits = [hardware.gpu_edits(device.pci) if mig_device is None else hardware.mig_edits(mig_device)]
        data: Tree = {
            "type": device.kind,
            "uuid": device.uuid if mig_device is None else mig_device.uuid,
            "pciBusID": device.pci,
        }
        if daemon is not None:
            edits.append(hardware.mps_edits(daemon.key))
            data["sharing"] = {"strategy": "MPS", "controlDaemon": daemon.key}
        elif any(device.pci in time_slice.gpus for time_slice in plan.time_slices) and not device.admin:
            data["sharing"] = {"strategy": "TimeSlicing"}
        if daemon is not None and daemon.limit is not None:
            data["sharing"]["memoryLimit"] = f"{daemon.limit}Mi"
        edits.append(
            hardware.grant_edits(
                plan.claim, device.pci if mig_device is None else mig_device, daemon.key if daemon else ""
            )
        )
        # The UUID of an on-demand MIG device is known only now; those of other devices are published.
        return ReadyDevice(merge(edits), data, {"uuid": DeviceAttribute(string=data["uuid"])} if data["uuid"] else {})

    async def ensure_running(self, plan: Tree) -> None:
        """Start control daemons that have ended, for example with the driver's own container. Raises ClaimError.

        Also raised if a MIG device is missing: a new one would differ from the one in the claim's containers.
        """
        decoded = decode(plan)
        try:
            uuids = {
                position: (await mig.find_mig_device(self.hardware, device)).uuid
                if device.kind == "mig"
                else device.uuid
                for position, device in enumerate(decoded.devices)
            }
            running = await self.hardware.mps_daemons() if decoded.daemons else frozenset()
            for daemon in decoded.daemons:
                if daemon.key not in running:
                    await sharing.start_daemon(self.hardware, decoded, daemon, uuids)
        except HardwareError as error:
            raise ClaimError(f"claim {decoded.claim} was prepared, but is no longer ready: {error}") from error

    async def sweep(self, plans: Sequence[Tree]) -> None:
        """Undo what earlier processes changed on the hardware, except for these plans. Raises ClaimError."""
        remaining = tuple(decode_known(plans))
        if len(remaining) < len(plans):
            raise ClaimError("cannot clean up the GPUs: some claims were prepared by a different version of the driver")
        try:
            await remove_orphans(self.hardware, remaining, on_demand=isinstance(self.mode, DynamicMig))
        except HardwareError as error:
            raise ClaimError(str(error)) from error

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Undo everything in a plan; after a failure the remaining steps are still executed. Raises ClaimError."""
        decoded, remaining = decode(plan), tuple(decode_known(others))
        hardware = self.hardware
        failed: list[str] = []

        async def undo(operation: Awaitable[object]) -> None:
            try:
                await operation
            except GpuLost:
                pass  # what was set or created on it is gone, too
            except HardwareError as error:
                failed.append(str(error))

        slices, modes = sharing.to_reset(decoded, remaining)
        async with self._lock_shared_settings(decoded):
            for daemon in decoded.daemons:
                await undo(hardware.stop_mps(daemon.key))
            for pci in modes:
                await undo(hardware.set_compute_mode(pci, "DEFAULT"))
            for pci in slices:
                await undo(hardware.set_time_slice(pci, 0))
        for device in mig.to_destroy(decoded, remaining):
            await undo(hardware.destroy_mig(device.pci, device.profile_id, device.start))
        for pci in vfio.to_release(decoded, remaining):
            await undo(hardware.bind_vfio(pci, False))
        if failed:
            raise ClaimError(f"cannot unprepare claim {decoded.claim}: {'; '.join(failed)}")
