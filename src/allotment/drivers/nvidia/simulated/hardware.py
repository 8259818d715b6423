"""Simulated NVIDIA GPUs: the same interface as NVML, with the same errors.

All code above :class:`.hardware.Hardware` is therefore the same with and without GPUs. The state of the GPUs is
separate from the driver, as on real hardware: with a folder, a driver that is killed finds its hardware unchanged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Final

from allotment.cdi.spec import ContainerEdits
from allotment.drivers.nvidia.hardware import (
    ComputeMode,
    Event,
    GpuLost,
    GpusChanged,
    HardwareError,
    MigDevice,
    MpsDaemon,
    Unmonitored,
    Xid,
)
from allotment.drivers.nvidia.simulated import container_edits as edits
from allotment.drivers.nvidia.simulated import state as transitions
from allotment.drivers.nvidia.simulated.fault_injection import FaultInjector, HardwareStep, Moment
from allotment.drivers.nvidia.simulated.grants import Grant, share_of
from allotment.drivers.nvidia.simulated.share import ComputeShare
from allotment.drivers.nvidia.simulated.state import Card, SimulatedState, StateFile
from allotment.fleet.nvidia import Gpu
from allotment.fleet.nvidia.mig_devices import ExistingMigDevice

#: Above the IOMMU group numbers of a real host.
_FIRST_GROUP: Final = 1000

#: How often, and how long in total, to poll for the end of a program.
_RELEASE_POLLS: Final = 50
_RELEASE_SECONDS: Final = 0.25


class SimulatedHardware:
    """The GPUs of one simulated node; ``name`` (the node's) is part of the tokens of containers.

    ``fixed_mig``: an administrator's MIG devices, by PCI address. ``state``: a folder to store the state in.
    ``address``: returns the address of the compute server for a token. ``latency``: seconds for every step.
    """

    def __init__(
        self,
        gpus: Iterable[Gpu],
        state: Path | None = None,
        *,
        fixed_mig: Mapping[str, Sequence[ExistingMigDevice]] | None = None,
        name: str = "",
        address: Callable[[str], str] | None = None,
        faults: FaultInjector | None = None,
        latency: float = 0.0,
    ) -> None:
        self.name = name
        self._gpus = {gpu.pci: gpu for gpu in gpus}
        self._fixed_mig = fixed_mig or {}
        self._address = address
        self._faults = faults
        self._latency = latency
        self._listeners: set[asyncio.Queue[Event]] = set()
        self._undelivered: list[Event] = []
        self._programs: Counter[str] = Counter()
        self._state_file = StateFile(state, self._initial_state)

    def _initial_state(self) -> SimulatedState:
        state = SimulatedState(cards={pci: transitions.initial_card(gpu) for pci, gpu in self._gpus.items()})
        for pci, devices in self._fixed_mig.items():
            card = state.cards[pci]
            card.mig = True
            for device in devices:
                transitions.make_gpu_instance(card, self._gpus[pci], device.profile_id, device.start).uuid = device.uuid
        return state

    # --- queries ----------------------------------------------------------------------------------------------------

    async def gpus(self) -> tuple[Gpu, ...]:
        await self._step("gpus", "before", self.name)
        state = self._state_file.read()
        return tuple(
            _current_facts(self._gpus[pci], state.cards[pci]) for pci in sorted(self._gpus) if pci not in state.absent
        )

    async def mig_devices(self, pci: str) -> tuple[MigDevice, ...]:
        """The existing MIG devices of a GPU, by start."""
        await self._step("mig_devices", "before", pci)
        gpu, card = self._card(self._state_file.read(), pci)
        instances = sorted(card.instances, key=lambda instance: (instance.start, instance.profile_id))
        return tuple(transitions.device_of(gpu, instance) for instance in instances if instance.uuid)

    async def mps_daemons(self) -> frozenset[str]:
        await self._step("mps_daemons", "before", self.name)
        return frozenset(self._state_file.read().daemons)

    def all_gpus(self) -> tuple[Gpu, ...]:
        """All GPUs, including removed ones."""
        return tuple(self._gpus.values())

    def snapshot(self) -> SimulatedState:
        """A copy of the complete state, for tests to compare."""
        return deepcopy(self._state_file.read())

    # --- MIG --------------------------------------------------------------------------------------------------------

    async def create_mig(self, pci: str, profile_id: int, start: int) -> MigDevice:
        """Create a MIG device, and enable MIG first if necessary. Rolled back if its compute instance fails."""
        await self._step("create_mig", "before", pci)
        await self._wait_for_programs(self._gpu(pci).uuid)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            if not card.mig:
                self._check_no_programs(gpu.uuid, f"{pci}: enable MIG")
            transitions.switch_mig_on(state, card, gpu)
            try:
                transitions.make_gpu_instance(card, gpu, profile_id, start)
            except HardwareError:
                transitions.switch_mig_off(card, gpu)
                raise
        try:
            await self._step("create_mig", "between", pci)
        except (HardwareError, asyncio.CancelledError):
            with self._state_file.change() as state:
                self._destroy(state, pci, profile_id, start)
            raise
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            instance = card.find(profile_id, start)
            if instance is None:
                raise HardwareError(f"{pci}: GPU instance at {start} was destroyed by another process")
            transitions.make_compute_instance(state, instance, gpu)
            device = transitions.device_of(gpu, instance)
        await self._step("create_mig", "after", pci)
        return device

    async def destroy_mig(self, pci: str, profile_id: int, start: int) -> None:
        """Destroy a complete or incomplete MIG device; after the last one, MIG is disabled if it was disabled
        initially.
        """
        await self._step("destroy_mig", "before", pci)
        _, card = self._card(self._state_file.read(), pci)
        if instance := card.find(profile_id, start):
            await self._wait_for_programs(instance.uuid)
        with self._state_file.change() as state:
            self._destroy(state, pci, profile_id, start)
        await self._step("destroy_mig", "after", pci)

    def _destroy(self, state: SimulatedState, pci: str, profile_id: int, start: int) -> None:
        gpu, card = self._card(state, pci)
        instance = card.find(profile_id, start)
        if instance is not None:
            self._check_no_programs(instance.uuid, f"{pci}: destroy {instance.uuid or 'a GPU instance'}")
            transitions.destroy_instance(state, card, gpu, instance)
        transitions.switch_mig_off(card, gpu)

    async def disable_mig(self, pci: str) -> None:
        await self._step("disable_mig", "before", pci)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            transitions.disable_mig(card, gpu)
        await self._step("disable_mig", "after", pci)

    # --- sharing ----------------------------------------------------------------------------------------------------

    async def set_time_slice(self, pci: str, interval: int) -> None:
        if not 0 <= interval <= 3:
            raise HardwareError(f"{pci}: time slice {interval}: expected 0 to 3")
        await self._step("set_time_slice", "before", pci)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            transitions.set_compute_mode(state, card, gpu, "DEFAULT")
            card.interval = interval
        await self._step("set_time_slice", "after", pci)

    async def set_compute_mode(self, pci: str, mode: ComputeMode) -> None:
        await self._step("set_compute_mode", "before", pci)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            transitions.set_compute_mode(state, card, gpu, mode)
        await self._step("set_compute_mode", "after", pci)

    async def start_mps(self, daemon: MpsDaemon) -> None:
        await self._step("start_mps", "before", daemon.key)
        self._state_file.make_mps_folder(daemon.key)
        await self._step("start_mps", "between", daemon.key)
        with self._state_file.change() as state:
            gpus = {pci: gpu for pci, gpu in self._gpus.items() if pci not in state.absent}
            transitions.start_daemon(state, gpus, daemon)
        await self._step("start_mps", "after", daemon.key)

    async def stop_mps(self, key: str) -> None:
        await self._step("stop_mps", "before", key)
        with self._state_file.change() as state:
            state.daemons.pop(key, None)
        await self._step("stop_mps", "between", key)
        self._state_file.remove_mps_folder(key)
        await self._step("stop_mps", "after", key)

    async def bind_vfio(self, pci: str, bound: bool, *, together_with: Collection[str] = ()) -> int:
        """Bind a GPU to vfio-pci, or back; returns its IOMMU group, by default a separate one."""
        await self._step("bind_vfio", "before", pci)
        await self._wait_for_programs(self._gpu(pci).uuid)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            if bound:
                self._check_no_programs(gpu.uuid, f"{pci}: bind to vfio-pci")
            transitions.bind_vfio(state, card, gpu, bound)
        await self._step("bind_vfio", "after", pci)
        return _FIRST_GROUP + gpu.minor if gpu.iommu_group is None else gpu.iommu_group

    # --- containers -------------------------------------------------------------------------------------------------

    def common_edits(self) -> ContainerEdits:
        return edits.common()

    def gpu_edits(self, pci: str) -> ContainerEdits:
        return edits.whole_gpu(self._gpu(pci))

    def mig_edits(self, device: MigDevice) -> ContainerEdits:
        return edits.mig_device(self._gpu(device.pci), device)

    def mps_edits(self, key: str) -> ContainerEdits:
        return edits.mps_client(self._state_file.mps_folder(key))

    def vfio_edits(self, pci: str, group: int, *, api_device: bool, iommu_fd: bool) -> ContainerEdits:
        """The IOMMU group's node: IOMMUFD is not simulated, and claims can only prefer it."""
        return edits.vfio_device(group, api_device)

    def grant_edits(self, claim: str, device: str | MigDevice, daemon: str = "") -> ContainerEdits:
        """Edits with which the container's programs reach the compute server."""
        if self._address is None:
            return ContainerEdits()
        return edits.compute_server(self._address(self.token(claim, device, daemon)))

    def token(self, claim: str, device: str | MigDevice, daemon: str = "") -> str:
        """The token of a claim's device; it starts with this hardware's name and ``/``, and is stable."""
        if isinstance(device, str):
            return Grant(self.name, claim, device, daemon=daemon).token
        return Grant(self.name, claim, device.pci, device.profile_id, device.start, daemon).token

    def share(self, token: str) -> ComputeShare | None:
        """The share that a program with the token can currently use; None if its device or its daemon is gone."""
        grant = Grant.parse(token)
        if grant is None or grant.hardware != self.name:
            return None
        state = self._state_file.read()
        gpu, card = self._gpus.get(grant.pci), state.cards.get(grant.pci)
        if gpu is None or card is None or grant.pci in state.absent or card.lost or card.vfio:
            return None
        return share_of(grant, gpu, card, state.daemons)

    @contextmanager
    def running(self, share: ComputeShare) -> Iterator[None]:
        """Mark a share as used by a program: meanwhile its device cannot be destroyed or unbound."""
        self._programs[share.engine] += 1
        try:
            yield
        finally:
            self._programs[share.engine] -= 1

    # --- events -----------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncIterator[Event]:
        """Events, starting with those that were not delivered to any listener."""
        queue: asyncio.Queue[Event] = asyncio.Queue()
        self._listeners.add(queue)
        for event in self._undelivered:
            queue.put_nowait(event)
        self._undelivered.clear()
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.discard(queue)

    def report_xid(self, pci: str, number: int) -> None:
        """Report a critical event of a GPU."""
        self._emit(Xid(pci, number))

    def stop_monitoring(self, pci: str) -> None:
        """Report that a GPU's critical events are not available, as on some virtual machines."""
        self._emit(Unmonitored(pci))

    def lose(self, pci: str) -> None:
        """Let a GPU fall off the bus: it no longer answers, but is still listed."""
        with self._state_file.change() as state:
            state.cards[pci].lost = True
        self._emit(Xid(pci, 0))

    def repair(self, pci: str) -> None:
        """Clear a GPU's faults; its settings and MIG devices are kept."""
        with self._state_file.change() as state:
            state.cards[pci].lost = False
        self._emit(GpusChanged((pci,)))

    def reset(self, pci: str) -> None:
        """Reset a GPU: its settings, MIG devices and faults are cleared."""
        with self._state_file.change() as state:
            transitions.reset_gpu(state, self._gpus[pci])
        self._emit(GpusChanged((pci,)))

    def remove(self, pci: str) -> None:
        """Remove a GPU from the machine."""
        with self._state_file.change() as state:
            transitions.reset_gpu(state, self._gpus[pci])
            state.absent.append(pci)
        self._emit(GpusChanged())

    def add(self, gpu: Gpu) -> None:
        """Add a new GPU to the machine, or one that was removed."""
        self._gpus[gpu.pci] = gpu
        with self._state_file.change() as state:
            state.absent = [pci for pci in state.absent if pci != gpu.pci]
            transitions.reset_gpu(state, gpu)
        self._emit(GpusChanged((gpu.pci,)))

    def reboot(self) -> None:
        """Reboot the node: only the administrator's MIG devices are created again."""
        with self._state_file.change() as state:
            initial = self._initial_state()
            for key in list(state.daemons):
                self._state_file.remove_mps_folder(key)
            state.cards, state.daemons = initial.cards, {}

    def _emit(self, event: Event) -> None:
        if not self._listeners:
            self._undelivered.append(event)
        for queue in self._listeners:
            queue.put_nowait(event)

    # --- steps ------------------------------------------------------------------------------------------------------

    def _gpu(self, pci: str) -> Gpu:
        gpu = self._gpus.get(pci)
        if gpu is None:
            raise GpuLost(f"no GPU at {pci}")
        return gpu

    def _card(self, state: SimulatedState, pci: str) -> tuple[Gpu, Card]:
        gpu = self._gpu(pci)
        if pci in state.absent:
            raise GpuLost(f"no GPU at {pci}: it was removed")
        if state.cards[pci].lost:
            raise GpuLost(f"{pci}: GPU is lost")
        return gpu, state.cards[pci]

    async def _wait_for_programs(self, engine: str) -> None:
        """Wait briefly for programs to end: the server learns of a terminated program later than a kernel would."""
        polls = 0
        while self._programs[engine] > 0 and polls < _RELEASE_POLLS:
            polls += 1
            await asyncio.sleep(_RELEASE_SECONDS / _RELEASE_POLLS)

    def _check_no_programs(self, engine: str, action: str) -> None:
        if self._programs[engine] > 0:
            raise HardwareError(f"{action}: In use by another client ({self._programs[engine]} programs)")

    async def _step(self, operation: str, moment: Moment, on: str) -> None:
        if self._latency:
            await asyncio.sleep(self._latency)
        if self._faults is not None:
            self._faults.take(HardwareStep(operation, moment, on))


def _current_facts(gpu: Gpu, card: Card) -> Gpu:
    """A GPU's facts with its current modes."""
    if (gpu.mig_enabled, gpu.vfio_bound) == (card.mig, card.vfio):
        return gpu
    return gpu._replace(mig_enabled=card.mig, vfio_bound=card.vfio)
