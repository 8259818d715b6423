"""AMD's driver: GPUs and partitions as the kernel has them, or partitioned as claims want them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits, DeviceNode
from allotment.drivers.amd import partitioning, vfio
from allotment.drivers.amd.config import CONFIGS, GpuConfig, VfioDeviceConfig
from allotment.drivers.amd.hardware import CharacterDevice, GpuHealth, Hardware, HardwareError
from allotment.drivers.amd.health import condition
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
from allotment.fleet.amd import DRIVER, Function, Gpu, Part, Setting, devices_of_gpus, name_of, offering, passed_through
from allotment.fleet.amd import auto_partition as names
from allotment.fleet.amd.vfio import name_of as name_of_function
from allotment.fleet.modes import Vocabulary
from allotment.model.resource import Device
from allotment.model.trees import Tree

_VFIO: Final = "gpu-vfio-"


class AmdDriver:
    """The driver of one node.

    ``auto``: every partition mode is on offer, and a GPU is put into the one that a claim gets. ``guests``: GPUs, or
    their virtual functions, are for virtual machines. Else GPUs are published in the modes that they are in, in the
    words of ``vocabulary``.
    """

    def __init__(
        self, hardware: Hardware, node: str, *, auto_partition: bool = False, guests: bool = False, vocabulary: Vocabulary = "v1"
    ) -> None:
        self.hardware = hardware
        self.node = node
        self.auto_partition = auto_partition
        self.guests = guests
        self.vocabulary = vocabulary
        self._gpus: dict[str, Gpu] = {}
        self._functions: dict[str, Function] = {}  # by the names of their devices
        self._initial_drivers: dict[str, str] = {}  # the kernel drivers of functions that no claim has
        self._gpu_of_device: dict[str, str] = {}  # the GPUs of devices
        self._unhealthy: Mapping[str, GpuHealth] = {}
        self._numbers: dict[str, int] = {}  # of GPUs in names of devices, which they keep
        self._plans: tuple[Plan, ...] = ()  # of claims that hold parts
        self._memory_mode = ""
        self._devices_changed = asyncio.Event()
        self._partition_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """``gpu.amd.com``."""
        return DRIVER

    @property
    def configs(self) -> Mapping[tuple[str, str], type]:
        """GpuConfig and VfioDeviceConfig."""
        return CONFIGS

    def config_applies(self, device: str, config: Any) -> bool:
        """Whether parameters are for a device's kind, which its name tells."""
        return isinstance(config, VfioDeviceConfig if device.startswith(_VFIO) else GpuConfig)

    def validate(self, config: Any) -> None:
        """All that can be wrong is a matter of types."""

    # --- what there is ------------------------------------------------------------------------------------------------

    async def discover(self) -> Sequence[DevicePool]:
        """One pool: the node's GPUs."""
        if self.guests:
            offer = self._function_pool(await self.hardware.functions())
        else:
            offer = self._gpu_pool(await self.hardware.gpus())
        self._gpu_of_device = {d.name: _gpu_address(d) for group in offer.groups for d in group}
        return (offer,)

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
            # What vfio-pci has while nobody here ever saw it otherwise was handed to it by somebody else, and stays.
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
        """What was prepared by an earlier process: GPUs keep their numbers, and a memory mode stays in use."""
        self._plans = decode_partitioned(plans)
        known = decode_known(plans)
        self._numbers |= {held.pci: held.number for plan in known for held in plan.devices if held.number >= 0}
        self._initial_drivers |= {pci: driver for plan in known for pci, driver in plan.initial_drivers.items()}

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """GPUs and partitions that come and go, memory modes that come into use and out of it, GPUs ill and well."""
        changes = asyncio.create_task(self._follow_changes())
        try:
            while True:
                moved = asyncio.create_task(self._devices_changed.wait())
                await asyncio.wait((moved, changes), return_when=asyncio.FIRST_COMPLETED)
                moved.cancel()
                if changes.done():
                    changes.result()
                    return
                self._devices_changed.clear()
                yield DevicesChanged()
                for news in await self._conditions():
                    yield news
        finally:
            changes.cancel()

    async def _follow_changes(self) -> None:
        if await self.hardware.unhealthy_gpus() or await self._inventory_changed():  # before anybody watched
            self._devices_changed.set()
        async for _ in self.hardware.changes():
            self._devices_changed.set()

    async def _inventory_changed(self) -> bool:
        if self.guests:
            return {function.pci for function in self._functions.values()} != {f.pci for f in await self.hardware.functions()}
        return tuple(self._gpus.values()) != await self.hardware.gpus()

    async def _conditions(self) -> list[HealthUpdate]:
        """Of the devices whose GPU is ill, or was when it was last looked at."""
        before, self._unhealthy = self._unhealthy, await self.hardware.unhealthy_gpus()
        return [
            condition(device, self._unhealthy.get(pci, GpuHealth()))
            for device, pci in self._gpu_of_device.items()
            if pci in before or pci in self._unhealthy
        ]

    # --- claims -------------------------------------------------------------------------------------------------------

    def plan(self, claim: AllocatedClaim) -> Tree:
        """What preparing will do. Raises Refused."""
        if self.guests:
            return vfio.plan_claim(claim.devices, self._functions, self._initial_drivers, decode_known(claim.other_plans)).to_tree()
        others = decode_partitioned(claim.other_plans)
        devices: list[PlannedDevice] = []
        for allocated in claim.devices:
            devices.append(self._planned_device(allocated, devices, others))
        slots = any(device.slots for device in devices)
        return Plan(tuple(devices), partitioning.initial_modes(self._gpus.values(), others) if slots else {}).to_tree()

    def _planned_device(self, allocated: AllocatedDevice, same_claim: Sequence[PlannedDevice], others: Sequence[Plan]) -> PlannedDevice:
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
        raise ClaimError(f"device {allocated.pool}/{allocated.device} is not on this node (any more)")

    def _find_setting(self, device: str) -> tuple[Gpu, Setting] | None:
        """The GPU and the setting that a name of a device on demand stands for."""
        for pci, gpu in self._gpus.items():
            for setting in gpu.settings:
                if names.name_of(self._numbers[pci], setting) == device:
                    return gpu, setting
        return None

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Do it. Raises Refused."""
        decoded = decode(plan)
        try:
            return await self._prepare(decoded, claim.other_plans)
        except HardwareError as error:
            devices = ", ".join(dict.fromkeys(device.device for device in decoded.devices))
            raise ClaimError(f"preparing {devices}: {error}") from error

    async def _prepare(self, plan: Plan, others: Sequence[Tree]) -> PreparedClaim:
        if plan.initial_drivers:
            await vfio.bind_to_vfio(self.hardware, plan)
            return PreparedClaim({(device.pool, device.device, device.share_id): await self._ready_function(device) for device in plan.devices})
        parts: dict[PlannedDevice, tuple[Part, ...]] = {}
        if plan.partitioned_devices:
            async with self._partition_lock:
                # Told before anything is done: who is on a device of another memory mode has to go (NoExecute).
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
            devices[device.pool, device.device, device.share_id] = ReadyDevice(edits, _status_data(device, parts[device]))
        env = (f"KUBERNETES_NODE_NAME={self.node}", f"DRA_RESOURCE_DRIVER_NAME={DRIVER}")
        return PreparedClaim(devices, ContainerEdits(env=env))

    async def _ready_function(self, device: PlannedDevice) -> ReadyDevice:
        files = await self.hardware.vfio_device_files(device.pci, iommu_fd=device.iommu_fd)
        if not files:
            raise ClaimError(f"device {device.pool}/{device.device}: the files of {device.pci} in /dev/vfio are not there")
        edits = ContainerEdits(device_nodes=_cdi_device_nodes(files), additional_gids=_group_ids(files))
        return ReadyDevice(edits, vfio.claim_data(device, self._functions))

    async def _device_files(self, device: PlannedDevice, part: Part) -> tuple[CharacterDevice, ...]:
        files = await self.hardware.device_files(part)
        if not files:
            raise ClaimError(
                f"device {device.pool}/{device.device}: /dev/kfd or the device files of card {part.card} are not there"
            )
        return files

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """GPUs that nobody holds any more go back to their drivers and modes. Raises Refused: they may be in use."""
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
        """These claims hold parts now."""
        self._plans = tuple(plans)
        if partitioning.memory_mode_of(self._plans) != self._memory_mode:
            self._devices_changed.set()


def _gpu_address(device: Device) -> str:
    """The GPU of a device, in either vocabulary."""
    candidates = (device.attributes.get(name) for name in ("resource.kubernetes.io/pciBusID", "pciAddr", "parentPciAddr"))
    return next((attribute.string for attribute in candidates if attribute is not None and attribute.string), "")


def _existing_parts(device: PlannedDevice, gpu: Gpu | None) -> tuple[Part, ...]:
    """The parts of a device that was there before; all of a GPU for an administrator who asks for one on demand."""
    parts = gpu.parts if gpu is not None else ()
    selected = parts if device.number >= 0 else tuple(part for part in parts if name_of(part) == device.device)
    if not selected:
        raise ClaimError(f"device {device.pool}/{device.device} is not on this node any more")
    return selected


def _cdi_device_nodes(files: Iterable[CharacterDevice]) -> tuple[DeviceNode, ...]:
    unique = {file.path: file for file in files}.values()
    return tuple(
        DeviceNode(path=file.path, type="c", major=file.major, minor=file.minor, permissions="rwm") for file in unique
    )


def _group_ids(files: Iterable[CharacterDevice]) -> tuple[int, ...]:
    """So that programs need not be root to use the device."""
    return tuple(sorted({file.group for file in files if file.group}))


def _status_data(device: PlannedDevice, parts: Sequence[Part]) -> Tree | None:
    """Which partitions a claim got, for its status: their names are known only now."""
    if not device.slots:
        return None
    return {"pciBusID": device.pci, "partitions": [name_of(part) for part in parts]}
