"""AMD's driver: GPUs and partitions as the kernel has them, or partitioned as claims want them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from allotment.cdi.spec import ContainerEdits, DeviceNode
from allotment.drivers.amd import partitioning, vfio
from allotment.drivers.amd.config import CONFIGS, GpuConfig, VfioDeviceConfig
from allotment.drivers.amd.hardware import GpuHealth, CharacterDevice, Hardware, HardwareError
from allotment.drivers.amd.health import condition
from allotment.drivers.amd.pci_binding import VFIO
from allotment.drivers.amd.plan import PlannedDevice, Plan, decode_partitioned, decode, decode_known
from allotment.drivers.driver import AllocatedClaim, HealthUpdate, AllocatedDevice, DeviceEvent, DevicePool, PreparedClaim, ReadyDevice, DevicesChanged, ClaimError
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
        self._before: dict[str, str] = {}  # the kernel drivers of functions that no claim has
        self._of: dict[str, str] = {}  # the GPUs of devices
        self._ill: Mapping[str, GpuHealth] = {}
        self._numbers: dict[str, int] = {}  # of GPUs in names of devices, which they keep
        self._plans: tuple[Plan, ...] = ()  # of claims that hold parts
        self._memory = ""
        self._moved = asyncio.Event()
        self._dividing = asyncio.Lock()

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
            offer = self._for_guests(await self.hardware.functions())
        else:
            offer = self._as_they_are(await self.hardware.gpus())
        self._of = {d.name: _address(d) for group in offer.groups for d in group}
        return (offer,)

    def _as_they_are(self, gpus: Iterable[Gpu]) -> DevicePool:
        self._gpus = {gpu.pci: gpu for gpu in gpus}
        if not self.auto_partition:
            return DevicePool((devices_of_gpus(self._gpus.values(), self.vocabulary),))
        self._number(self._gpus)
        self._memory = partitioning.memory_mode_of(self._plans)
        found = offering({self._numbers[pci]: gpu for pci, gpu in self._gpus.items()}, self._memory)
        return DevicePool(found.groups, found.counters)

    def _for_guests(self, functions: Iterable[Function]) -> DevicePool:
        by_address = {one.pci: one for one in functions}
        self._number(by_address)
        numbered = {self._numbers[pci]: one for pci, one in by_address.items()}
        self._functions = {name_of_function(number): one for number, one in numbered.items()}
        for pci, one in by_address.items():
            # What vfio-pci has while nobody here ever saw it otherwise was handed to it by somebody else, and stays.
            if one.driver != VFIO:
                self._before[pci] = one.driver
            else:
                self._before.setdefault(pci, VFIO)
        return DevicePool(*passed_through(numbered))

    def _number(self, addresses: Iterable[str]) -> None:
        for pci in addresses:
            if pci not in self._numbers:
                used = set(self._numbers.values())
                self._numbers[pci] = next(n for n in range(len(used) + 1) if n not in used)

    def restore(self, plans: Sequence[Tree]) -> None:
        """What was prepared by an earlier process: GPUs keep their numbers, and a memory mode stays in use."""
        self._plans = decode_partitioned(plans)
        known = decode_known(plans)
        self._numbers |= {held.pci: held.number for plan in known for held in plan.devices if held.number >= 0}
        self._before |= {pci: driver for plan in known for pci, driver in plan.initial_drivers.items()}

    async def watch(self) -> AsyncIterator[DeviceEvent]:
        """GPUs and partitions that come and go, memory modes that come into use and out of it, GPUs ill and well."""
        changes = asyncio.create_task(self._follow())
        try:
            while True:
                moved = asyncio.create_task(self._moved.wait())
                await asyncio.wait((moved, changes), return_when=asyncio.FIRST_COMPLETED)
                moved.cancel()
                if changes.done():
                    changes.result()
                    return
                self._moved.clear()
                yield DevicesChanged()
                for news in await self._conditions():
                    yield news
        finally:
            changes.cancel()

    async def _follow(self) -> None:
        if await self.hardware.unhealthy_gpus() or await self._changed():  # before anybody watched
            self._moved.set()
        async for _ in self.hardware.changes():
            self._moved.set()

    async def _changed(self) -> bool:
        if self.guests:
            return {one.pci for one in self._functions.values()} != {f.pci for f in await self.hardware.functions()}
        return tuple(self._gpus.values()) != await self.hardware.gpus()

    async def _conditions(self) -> list[HealthUpdate]:
        """Of the devices whose GPU is ill, or was when it was last looked at."""
        before, self._ill = self._ill, await self.hardware.unhealthy_gpus()
        return [
            condition(device, self._ill.get(pci, GpuHealth()))
            for device, pci in self._of.items()
            if pci in before or pci in self._ill
        ]

    # --- claims -------------------------------------------------------------------------------------------------------

    def plan(self, claim: AllocatedClaim) -> Tree:
        """What preparing will do. Raises Refused."""
        if self.guests:
            return vfio.plan_claim(claim.devices, self._functions, self._before, decode_known(claim.other_plans)).to_tree()
        others = decode_partitioned(claim.other_plans)
        held: list[PlannedDevice] = []
        for granted in claim.devices:
            held.append(self._held(granted, held, others))
        slots = any(one.slots for one in held)
        return Plan(tuple(held), partitioning.initial_modes(self._gpus.values(), others) if slots else {}).to_tree()

    def _held(self, granted: AllocatedDevice, taken: Sequence[PlannedDevice], others: Sequence[Plan]) -> PlannedDevice:
        found = self._setting(granted.device) if self.auto_partition else None
        if found is not None:
            gpu, setting = found
            number = self._numbers[gpu.pci]
            if granted.admin_access:
                return PlannedDevice(granted.pool, granted.device, gpu.pci, granted.share_id, number=number)
            return partitioning.plan_partitions(granted, number, gpu, setting, taken, others)
        for gpu in self._gpus.values():
            if any(name_of(part) == granted.device for part in gpu.parts):
                return PlannedDevice(granted.pool, granted.device, gpu.pci, granted.share_id)
        raise ClaimError(f"device {granted.pool}/{granted.device} is not on this node (any more)")

    def _setting(self, device: str) -> tuple[Gpu, Setting] | None:
        """The GPU and the setting that a name of a device on demand stands for."""
        for pci, gpu in self._gpus.items():
            for setting in gpu.settings:
                if names.name_of(self._numbers[pci], setting) == device:
                    return gpu, setting
        return None

    async def prepare(self, claim: AllocatedClaim, plan: Tree) -> PreparedClaim:
        """Do it. Raises Refused."""
        what = decode(plan)
        try:
            return await self._prepare(what, claim.other_plans)
        except HardwareError as error:
            devices = ", ".join(dict.fromkeys(held.device for held in what.devices))
            raise ClaimError(f"preparing {devices}: {error}") from error

    async def _prepare(self, plan: Plan, others: Sequence[Tree]) -> PreparedClaim:
        if plan.initial_drivers:
            await vfio.bind_to_vfio(self.hardware, plan)
            return PreparedClaim({(held.pool, held.device, held.share_id): await self._guest(held) for held in plan.devices})
        parts: dict[PlannedDevice, tuple[Part, ...]] = {}
        if plan.partitioned_devices:
            async with self._dividing:
                # Told before anything is done: who is on a device of another memory mode has to go (NoExecute).
                left = decode_partitioned(others)
                self._holding((*left, plan))
                parts |= await partitioning.apply_modes(self.hardware, plan, left)
        gpus = {gpu.pci: gpu for gpu in await self.hardware.gpus()}
        devices = {}
        for held in plan.devices:
            if held not in parts:
                parts[held] = _existing(held, gpus.get(held.pci))
            characters = [one for part in parts[held] for one in await self._characters(held, part)]
            edits = ContainerEdits(device_nodes=_nodes(characters), additional_gids=_groups(characters))
            devices[held.pool, held.device, held.share_id] = ReadyDevice(edits, _data(held, parts[held]))
        env = (f"KUBERNETES_NODE_NAME={self.node}", f"DRA_RESOURCE_DRIVER_NAME={DRIVER}")
        return PreparedClaim(devices, ContainerEdits(env=env))

    async def _guest(self, held: PlannedDevice) -> ReadyDevice:
        characters = await self.hardware.vfio_device_files(held.pci, iommu_fd=held.iommu_fd)
        if not characters:
            raise ClaimError(f"device {held.pool}/{held.device}: the files of {held.pci} in /dev/vfio are not there")
        edits = ContainerEdits(device_nodes=_nodes(characters), additional_gids=_groups(characters))
        return ReadyDevice(edits, vfio.claim_data(held, self._functions))

    async def _characters(self, held: PlannedDevice, part: Part) -> tuple[CharacterDevice, ...]:
        characters = await self.hardware.device_files(part)
        if not characters:
            raise ClaimError(
                f"device {held.pool}/{held.device}: /dev/kfd or the device files of card {part.card} are not there"
            )
        return characters

    async def unprepare(self, plan: Tree, others: Sequence[Tree] = ()) -> None:
        """GPUs that nobody holds any more go back to their drivers and modes. Raises Refused: they may be in use."""
        what, left = decode(plan), decode_partitioned(others)
        if what.initial_drivers:
            failed = await vfio.restore_drivers(self.hardware, what, decode_known(others))
            if failed:
                raise ClaimError("; ".join(failed))
        if not what.partitioned_devices:
            return
        async with self._dividing:
            try:
                await partitioning.restore(self.hardware, what, left)
            except HardwareError as error:
                raise ClaimError(str(error)) from error
            self._holding(left)

    def _holding(self, plans: Sequence[Plan]) -> None:
        """These claims hold parts now."""
        self._plans = tuple(plans)
        if partitioning.memory_mode_of(self._plans) != self._memory:
            self._moved.set()


def _address(device: Device) -> str:
    """The GPU of a device, in either vocabulary."""
    found = (device.attributes.get(name) for name in ("resource.kubernetes.io/pciBusID", "pciAddr", "parentPciAddr"))
    return next((one.string for one in found if one is not None and one.string), "")


def _existing(held: PlannedDevice, gpu: Gpu | None) -> tuple[Part, ...]:
    """The parts of a device that was there before; all of a GPU for an administrator who asks for one on demand."""
    parts = gpu.parts if gpu is not None else ()
    found = parts if held.number >= 0 else tuple(part for part in parts if name_of(part) == held.device)
    if not found:
        raise ClaimError(f"device {held.pool}/{held.device} is not on this node any more")
    return found


def _nodes(characters: Iterable[CharacterDevice]) -> tuple[DeviceNode, ...]:
    nodes = {one.path: one for one in characters}.values()
    return tuple(
        DeviceNode(path=one.path, type="c", major=one.major, minor=one.minor, permissions="rwm") for one in nodes
    )


def _groups(characters: Iterable[CharacterDevice]) -> tuple[int, ...]:
    """So that programs need not be root to use the device."""
    return tuple(sorted({one.group for one in characters if one.group}))


def _data(held: PlannedDevice, parts: Sequence[Part]) -> Tree | None:
    """Which partitions a claim got, for its status: their names are known only now."""
    if not held.slots:
        return None
    return {"pciBusID": held.pci, "partitions": [name_of(part) for part in parts]}
