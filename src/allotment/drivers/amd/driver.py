"""AMD's driver: publishes GPUs and partitions in their current modes, or partitions GPUs for claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits, DeviceNode
from allotment.drivers.amd import partitioning, vfio
from allotment.drivers.amd.hardware import CharacterDevice, GpuHealth, Hardware, HardwareError
from allotment.drivers.amd.pci_binding import VFIO
from allotment.drivers.amd.plan import Plan, PlannedDevice, decode, decode_known, decode_partitioned
from allotment.drivers.driver import (
    AllocatedClaim,
    AllocatedDevice,
    ClaimError,
    DeviceEvent,
    DevicePool,
    DevicesChanged,
    HealthUpdate,
    PreparedClaim,
    ReadyDevice,
)
from allotment.fleet.amd import (
    DRIVER,
    Function,
    Gpu,
    GpuPartition,
    PartitionMode,
    devices_of_gpus,
    name_of,
    offering,
    passed_through,
)
from allotment.fleet.amd import auto_partition as names
from allotment.fleet.amd.vfio import name_of as name_of_function
from allotment.fleet.modes import Vocabulary
from allotment.model.resource import Device, DeviceTaint
from allotment.model.trees import Tree
from allotment.vocabulary.parameters.amd import KINDS, GpuConfig, VfioDeviceConfig

_VFIO: Final = "gpu-vfio-"


class AmdDriver:
    """The driver of one node.

    ``auto_partition``: publish every partition mode, and switch a GPU to the mode of the claim that gets it.
    ``guests``: publish GPUs, or their virtual functions, for virtual machines. Otherwise GPUs are published in their
    current modes. ``vocabulary``: the version of AMD's attribute and capacity names.
    """

    def __init__(
        self,
        hardware: Hardware,
        node: str,
        *,
        auto_partition: bool = False,
        guests: bool = False,
        vocabulary: Vocabulary = "v1",
    ) -> None:
        self.hardware = hardware
        self.node = node
        self.auto_partition = auto_partition
        self.guests = guests
        self.vocabulary = vocabulary
        self._gpus: dict[str, Gpu] = {}
        self._functions: dict[str, Function] = {}  # by device name
        self._initial_drivers: dict[str, str] = {}  # kernel drivers of functions without a claim
        self._gpu_of_device: dict[str, str] = {}  # PCI address of the GPU by device name
        self._unhealthy: Mapping[str, GpuHealth] = {}
        self._numbers: dict[str, int] = {}  # of GPUs in device names; stable
        self._plans: tuple[Plan, ...] = ()  # of claims that have partitions
        self._memory_mode = ""
        self._devices_changed = asyncio.Event()
        self._partition_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        return DRIVER

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        return KINDS

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether the parameters are for the device's kind, which the device's name contains."""
        return isinstance(config, VfioDeviceConfig if device.startswith(_VFIO) else GpuConfig)

    def validate(self, config: Any) -> None:
        """Accept everything: all that can be wrong with these parameters is a matter of types."""

    # --- discovery ----------------------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        """Return one pool with the node's GPUs."""
        if self.guests:
            pool = self._function_pool(await self.hardware.functions())
        else:
            pool = self._gpu_pool(await self.hardware.gpus())
        self._gpu_of_device = {d.name: _gpu_address(d) for group in pool.groups for d in group}
        return (pool,)

    def _gpu_pool(self, gpus: Iterable[Gpu]) -> DevicePool:
        self._gpus = {gpu.pci: gpu for gpu in gpus}
        if not self.auto_partition:
            return DevicePool((devices_of_gpus(self._gpus.values(), self.vocabulary),))
        self._assign_numbers(self._gpus)
        self._memory_mode = partitioning.memory_mode_of(self._plans)
        published = offering({self._numbers[pci]: gpu for pci, gpu in self._gpus.items()}, self._memory_mode)
        return DevicePool(published.groups, published.counters)

    def _function_pool(self, functions: Iterable[Function]) -> DevicePool:
        by_address = {function.pci: function for function in functions}
        self._assign_numbers(by_address)
        numbered = {self._numbers[pci]: function for pci, function in by_address.items()}
        self._functions = {name_of_function(number): function for number, function in numbered.items()}
        for pci, function in by_address.items():
            # A function that was bound to vfio-pci from the start was bound by another program, and stays bound.
            if function.driver != VFIO:
                self._initial_drivers[pci] = function.driver
            else:
                self._initial_drivers.setdefault(pci, VFIO)
        return DevicePool(*passed_through(numbered))

    def _assign_numbers(self, addresses: Iterable[str]) -> None:
        for pci in addresses:
            if pci not in self._numbers:
                used = set(self._numbers.values())
                self._numbers[pci] = next(n for n in range(len(used) + 1) if n not in used)

    def restore(self, plans: Sequence[Tree]) -> None:
        """Load the plans of an earlier process: GPUs keep their numbers, and the memory mode stays in use."""
        self._plans = decode_partitioned(plans)
        known = decode_known(plans)
        self._numbers |= {device.pci: device.number for plan in known for device in plan.devices if device.number >= 0}
        self._initial_drivers |= {pci: driver for plan in known for pci, driver in plan.initial_drivers.items()}

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """Report added and removed devices, changes of the memory mode in use, and changes of GPU health."""
        changes = asyncio.create_task(self._follow_changes())
        try:
            while True:
                change = asyncio.create_task(self._devices_changed.wait())
                await asyncio.wait((change, changes), return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if changes.done():
                    changes.result()
                    return
                self._devices_changed.clear()
                yield DevicesChanged()
                for update in await self._health_updates():
                    yield update
        finally:
            changes.cancel()

    async def _follow_changes(self) -> None:
        if await self.hardware.unhealthy_gpus() or await self._inventory_changed():  # changes before watch() was called
            self._devices_changed.set()
        async for _ in self.hardware.changes():
            self._devices_changed.set()

    async def _inventory_changed(self) -> bool:
        if self.guests:
            return {function.pci for function in self._functions.values()} != {
                f.pci for f in await self.hardware.functions()
            }
        return tuple(self._gpus.values()) != await self.hardware.gpus()

    async def _health_updates(self) -> list[HealthUpdate]:
        """Health updates for the devices whose GPU is unhealthy, or was at the previous check."""
        before, self._unhealthy = self._unhealthy, await self.hardware.unhealthy_gpus()
        return [
            health_update(device, self._unhealthy.get(pci, GpuHealth()))
            for device, pci in self._gpu_of_device.items()
            if pci in before or pci in self._unhealthy
        ]

    # --- claims -------------------------------------------------------------------------------------------------------

    def plan(self, claim: AllocatedClaim) -> Tree:
        """Return the plan of a claim. Raises ClaimError."""
        if self.guests:
            return vfio.plan_claim(
                claim.devices, self._functions, self._initial_drivers, decode_known(claim.other_plans)
            ).to_tree()
        others = decode_partitioned(claim.other_plans)
        devices: list[PlannedDevice] = []
        for allocated in claim.devices:
            devices.append(self._planned_device(allocated, devices, others))
        slots = any(device.slots for device in devices)
        return Plan(tuple(devices), partitioning.initial_modes(self._gpus.values(), others) if slots else {}).to_tree()

    def _planned_device(
        self, allocated: AllocatedDevice, same_claim: Sequence[PlannedDevice], others: Sequence[Plan]
    ) -> PlannedDevice:
        match = self._find_setting(allocated.device) if self.auto_partition else None
        if match is not None:
            gpu, setting = match
            number = self._numbers[gpu.pci]
            if allocated.admin_access:
                return PlannedDevice(allocated.pool, allocated.device, gpu.pci, allocated.share_id, number=number)
            return partitioning.plan_partitions(allocated, number, gpu, setting, same_claim, others)
        for gpu in self._gpus.values():
            if any(name_of(part) == allocated.device for part in gpu.parts):
                return PlannedDevice(allocated.pool, allocated.device, gpu.pci, allocated.share_id)
        raise ClaimError(f"device {allocated.pool}/{allocated.device} not found on this node")

    def _find_setting(self, device: str) -> tuple[Gpu, PartitionMode] | None:
        """The GPU and the partition setting that the name of an on-demand device refers to."""
        for pci, gpu in self._gpus.items():
            for setting in gpu.settings:
                if names.name_of(self._numbers[pci], setting) == device:
                    return gpu, setting
        return None

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Prepare a planned claim. Raises ClaimError."""
        decoded = decode(plan)
        try:
            return await self._prepare(decoded, claim.other_plans)
        except HardwareError as error:
            devices = ", ".join(dict.fromkeys(device.device for device in decoded.devices))
            raise ClaimError(f"preparing {devices}: {error}") from error

    async def _prepare(self, plan: Plan, others: Sequence[Tree]) -> PreparedClaim:
        if plan.initial_drivers:
            await vfio.bind_to_vfio(self.hardware, plan)
            return PreparedClaim(
                {
                    (device.pool, device.device, device.share_id): await self._ready_function(device)
                    for device in plan.devices
                }
            )
        parts: dict[PlannedDevice, tuple[GpuPartition, ...]] = {}
        if plan.partitioned_devices:
            async with self._partition_lock:
                # Recorded before anything is changed: pods on devices of another memory mode are evicted (NoExecute).
                remaining = decode_partitioned(others)
                self._record_plans((*remaining, plan))
                parts |= await partitioning.apply_modes(self.hardware, plan, remaining)
        gpus = {gpu.pci: gpu for gpu in await self.hardware.gpus()}
        devices = {}
        for device in plan.devices:
            if device not in parts:
                parts[device] = _existing_parts(device, gpus.get(device.pci))
            files = [file for part in parts[device] for file in await self._device_files(device, part)]
            edits = ContainerEdits(device_nodes=_cdi_device_nodes(files), additional_gids=_group_ids(files))
            devices[device.pool, device.device, device.share_id] = ReadyDevice(
                edits, _status_data(device, parts[device])
            )
        env = (f"KUBERNETES_NODE_NAME={self.node}", f"DRA_RESOURCE_DRIVER_NAME={DRIVER}")
        return PreparedClaim(devices, ContainerEdits(env=env))

    async def _ready_function(self, device: PlannedDevice) -> ReadyDevice:
        files = await self.hardware.vfio_device_files(device.pci, iommu_fd=device.iommu_fd)
        if not files:
            raise ClaimError(
                f"device {device.pool}/{device.device}: device files of GPU {device.pci} not found in /dev/vfio"
            )
        edits = ContainerEdits(device_nodes=_cdi_device_nodes(files), additional_gids=_group_ids(files))
        return ReadyDevice(edits, vfio.claim_data(device, self._functions))

    async def _device_files(self, device: PlannedDevice, part: GpuPartition) -> tuple[CharacterDevice, ...]:
        files = await self.hardware.device_files(part)
        if not files:
            raise ClaimError(
                f"device {device.pool}/{device.device}: /dev/kfd or the device files of card {part.card} not found"
            )
        return files

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """Restore the drivers and modes of GPUs that no other claim uses. Raises ClaimError, for example if a GPU is in
        use.
        """
        decoded, remaining = decode(plan), decode_partitioned(others)
        if decoded.initial_drivers:
            failed = await vfio.restore_drivers(self.hardware, decoded, decode_known(others))
            if failed:
                raise ClaimError("; ".join(failed))
        if not decoded.partitioned_devices:
            return
        async with self._partition_lock:
            try:
                await partitioning.restore(self.hardware, decoded, remaining)
            except HardwareError as error:
                raise ClaimError(str(error)) from error
            self._record_plans(remaining)

    def _record_plans(self, plans: Sequence[Plan]) -> None:
        """Store the plans of the claims that now have partitions."""
        self._plans = tuple(plans)
        if partitioning.memory_mode_of(self._plans) != self._memory_mode:
            self._devices_changed.set()


def _gpu_address(device: Device) -> str:
    """The PCI address of a device's GPU, in either vocabulary."""
    candidates = (
        device.attributes.get(name) for name in ("resource.kubernetes.io/pciBusID", "pciAddr", "parentPciAddr")
    )
    return next((attribute.string for attribute in candidates if attribute is not None and attribute.string), "")


def _existing_parts(device: PlannedDevice, gpu: Gpu | None) -> tuple[GpuPartition, ...]:
    """The existing partitions of a device; all partitions of a GPU for admin access to an on-demand device."""
    parts = gpu.parts if gpu is not None else ()
    selected = parts if device.number >= 0 else tuple(part for part in parts if name_of(part) == device.device)
    if not selected:
        raise ClaimError(f"device {device.pool}/{device.device} no longer exists on this node")
    return selected


def _cdi_device_nodes(files: Iterable[CharacterDevice]) -> tuple[DeviceNode, ...]:
    unique = {file.path: file for file in files}.values()
    return tuple(
        DeviceNode(path=file.path, type="c", major=file.major, minor=file.minor, permissions="rwm") for file in unique
    )


def _group_ids(files: Iterable[CharacterDevice]) -> tuple[int, ...]:
    """The groups of the device files, so that programs can use the device without root."""
    return tuple(sorted({file.group for file in files if file.group}))


def _status_data(device: PlannedDevice, parts: Sequence[GpuPartition]) -> Tree | None:
    """The partitions that a claim got, for its status: their names are known only after partitioning."""
    if not device.slots:
        return None
    return {"pciBusID": device.pci, "partitions": [name_of(part) for part in parts]}


RAS_TAINT: Final = "gpu.amd.com/ras"
LOST_TAINT: Final = "gpu.amd.com/gpu-lost"


def health_update(device: str, health: GpuHealth) -> HealthUpdate:
    """The health update for a device of a GPU. The taint's value is the first block with uncorrectable errors."""
    taints = [DeviceTaint(key=LOST_TAINT, effect="NoSchedule")] if health.lost else []
    messages = ["the GPU is lost: it no longer responds"] if health.lost else []
    if health.errors:
        taints.append(DeviceTaint(key=RAS_TAINT, value=health.errors[0][0], effect="NoSchedule"))
        messages += [f"uncorrectable errors in {block}: {count}" for block, count in health.errors]
    return HealthUpdate(device, "Unhealthy" if taints else "Healthy", "; ".join(messages), tuple(taints))
