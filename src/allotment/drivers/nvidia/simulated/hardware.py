"""NVIDIA GPUs that are not there: the same interface as NVML, the same refusals, no device.

Everything above :class:`.hardware.Hardware` is thus one code with and without GPUs. What the GPUs are set to lives
apart from the driver, as it does in real life: give a folder, and a driver that is killed finds its hardware as it left
it.
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
from allotment.drivers.nvidia.simulated.state import Card, SimulatedState
from allotment.drivers.nvidia.simulated.state_file import StateFile
from allotment.fleet.nvidia import Gpu
from allotment.fleet.nvidia.mig_devices import Existing

#: Above the group numbers that a real host hands out.
_FIRST_GROUP: Final = 1000

#: What waits until a program has left looks so often, in all so long.
_RELEASE_POLLS: Final = 50
_RELEASE_SECONDS: Final = 0.25


class SimulatedHardware:
    """The GPUs of one simulated node; ``name`` (the node's) is part of the tokens that containers get.

    ``made``: MIG devices that an administrator has made, by PCI address. ``state``: a folder to keep it all in.
    ``address``: where programs with a token find the simulated compute engine. ``latency``: seconds
    that every step takes.
    """

    def __init__(
        self,
        gpus: Iterable[Gpu],
        state: Path | None = None,
        *,
        fixed_mig: Mapping[str, Sequence[Existing]] | None = None,
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

    # --- what is there ----------------------------------------------------------------------------------------------

    async def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs by PCI address."""
        await self._step("gpus", "before", self.name)
        state = self._state_file.read()
        return tuple(
            _current_facts(self._gpus[pci], state.cards[pci]) for pci in sorted(self._gpus) if pci not in state.absent
        )

    async def mig_devices(self, pci: str) -> tuple[MigDevice, ...]:
        """The MIG devices that exist on a GPU, by place."""
        await self._step("mig_devices", "before", pci)
        gpu, card = self._card(self._state_file.read(), pci)
        instances = sorted(card.instances, key=lambda instance: (instance.start, instance.profile_id))
        return tuple(transitions.device_of(gpu, instance) for instance in instances if instance.uuid)

    async def mps_daemons(self) -> frozenset[str]:
        """Keys of the daemons that run."""
        await self._step("mps_daemons", "before", self.name)
        return frozenset(self._state_file.read().daemons)

    def all_gpus(self) -> tuple[Gpu, ...]:
        """All GPUs that ever were there, also those that were pulled out."""
        return tuple(self._gpus.values())

    def snapshot(self) -> SimulatedState:
        """Everything as it is, for tests to compare."""
        return deepcopy(self._state_file.read())

    # --- MIG --------------------------------------------------------------------------------------------------------

    async def create_mig(self, pci: str, profile_id: int, start: int) -> MigDevice:
        """Make a MIG device, MIG switched on first if need be. Rolled back if its compute instance fails."""
        await self._step("create_mig", "before", pci)
        await self._wait_for_programs(self._gpu(pci).uuid)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            if not card.mig:
                self._check_no_programs(gpu.uuid, f"{pci}: switch MIG on")
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
                raise HardwareError(f"{pci}: GPU instance at {start} was destroyed by somebody else")
            transitions.make_compute_instance(state, instance, gpu)
            device = transitions.device_of(gpu, instance)
        await self._step("create_mig", "after", pci)
        return device

    async def destroy_mig(self, pci: str, profile_id: int, start: int) -> None:
        """Destroy a MIG device or what there is of one; MIG off with the last, where it was off in the beginning."""
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
        """Have MIG off on a GPU."""
        await self._step("leave_mig", "before", pci)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            transitions.disable_mig(card, gpu)
        await self._step("leave_mig", "after", pci)

    # --- sharing ----------------------------------------------------------------------------------------------------

    async def set_time_slice(self, pci: str, interval: int) -> None:
        """0 default, 1 short, 2 medium, 3 long; compute mode DEFAULT with it."""
        if not 0 <= interval <= 3:
            raise HardwareError(f"{pci}: time slice {interval}: wanted 0 to 3")
        await self._step("set_time_slice", "before", pci)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            transitions.set_compute_mode(state, card, gpu, "DEFAULT")
            card.interval = interval
        await self._step("set_time_slice", "after", pci)

    async def set_compute_mode(self, pci: str, mode: ComputeMode) -> None:
        """Who may use a GPU."""
        await self._step("set_compute_mode", "before", pci)
        with self._state_file.change() as state:
            gpu, card = self._card(state, pci)
            transitions.set_compute_mode(state, card, gpu, mode)
        await self._step("set_compute_mode", "after", pci)

    async def start_mps(self, daemon: MpsDaemon) -> None:
        """Start a control daemon."""
        await self._step("start_mps", "before", daemon.key)
        self._state_file.make_mps_folder(daemon.key)
        await self._step("start_mps", "between", daemon.key)
        with self._state_file.change() as state:
            gpus = {pci: gpu for pci, gpu in self._gpus.items() if pci not in state.absent}
            transitions.start_daemon(state, gpus, daemon)
        await self._step("start_mps", "after", daemon.key)

    async def stop_mps(self, key: str) -> None:
        """Stop a control daemon and remove its folders; unknown is stopped already."""
        await self._step("stop_mps", "before", key)
        with self._state_file.change() as state:
            state.daemons.pop(key, None)
        await self._step("stop_mps", "between", key)
        self._state_file.remove_mps_folder(key)
        await self._step("stop_mps", "after", key)

    async def bind_vfio(self, pci: str, bound: bool, *, together_with: Collection[str] = ()) -> int:
        """Hand a GPU to vfio-pci, or back; its IOMMU group, which is its own."""
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
        """Control nodes."""
        return edits.common()

    def gpu_edits(self, pci: str) -> ContainerEdits:
        """The GPU's node."""
        return edits.whole_gpu(self._gpu(pci))

    def mig_edits(self, device: MigDevice) -> ContainerEdits:
        """The GPU's node and the capabilities."""
        return edits.mig_device(self._gpu(device.pci), device)

    def mps_edits(self, key: str) -> ContainerEdits:
        """Where the daemon listens."""
        return edits.mps_client(self._state_file.mps_folder(key))

    def vfio_edits(self, pci: str, group: int, *, api_device: bool, iommu_fd: bool) -> ContainerEdits:
        """The IOMMU group's node: the newer interface is not simulated, and where it is preferred only."""
        return edits.vfio_device(group, api_device)

    def grant_edits(self, claim: str, device: str | MigDevice, daemon: str = "") -> ContainerEdits:
        """How the container's programs reach the compute engine."""
        if self._address is None:
            return ContainerEdits()
        return edits.compute_server(self._address(self.token(claim, device, daemon)))

    def token(self, claim: str, device: str | MigDevice, daemon: str = "") -> str:
        """What names a claim's part of a device; begins with this hardware's name and ``/``, and is stable."""
        if isinstance(device, str):
            return Grant(self.name, claim, device, daemon=daemon).token
        return Grant(self.name, claim, device.pci, device.profile_id, device.start, daemon).token

    def share(self, token: str) -> ComputeShare | None:
        """What a program with that token may use now. None: nothing, as its device or its daemon is gone."""
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
        """A program runs on its share: meanwhile nobody can take the device away."""
        self._programs[share.engine] += 1
        try:
            yield
        finally:
            self._programs[share.engine] -= 1

    # --- what happens -----------------------------------------------------------------------------------------------

    async def events(self) -> AsyncIterator[Event]:
        """What happens from now on, after what happened while nobody listened."""
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
        """A GPU reports a critical event."""
        self._emit(Xid(pci, number))

    def stop_monitoring(self, pci: str) -> None:
        """The driver cannot tell a GPU's critical events, as on some virtual machines."""
        self._emit(Unmonitored(pci))

    def lose(self, pci: str) -> None:
        """A GPU no longer answers (it has fallen off the bus), but is still listed."""
        with self._state_file.change() as state:
            state.cards[pci].lost = True
        self._emit(Xid(pci, 0))

    def repair(self, pci: str) -> None:
        """A GPU's troubles are over, and it kept what was set and made on it."""
        with self._state_file.change() as state:
            state.cards[pci].lost = False
        self._emit(GpusChanged((pci,)))

    def reset(self, pci: str) -> None:
        """A GPU is reset: all that was set or made on it is gone, and so are its troubles."""
        with self._state_file.change() as state:
            transitions.reset_gpu(state, self._gpus[pci])
        self._emit(GpusChanged((pci,)))

    def remove(self, pci: str) -> None:
        """A GPU is pulled out."""
        with self._state_file.change() as state:
            transitions.reset_gpu(state, self._gpus[pci])
            state.absent.append(pci)
        self._emit(GpusChanged())

    def add(self, gpu: Gpu) -> None:
        """A GPU is put in: a new one, or one that was pulled out."""
        self._gpus[gpu.pci] = gpu
        with self._state_file.change() as state:
            state.absent = [pci for pci in state.absent if pci != gpu.pci]
            transitions.reset_gpu(state, gpu)
        self._emit(GpusChanged((gpu.pci,)))

    def reboot(self) -> None:
        """The node starts again: only what its administrator had made is made again."""
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

    # --- inside -----------------------------------------------------------------------------------------------------

    def _gpu(self, pci: str) -> Gpu:
        gpu = self._gpus.get(pci)
        if gpu is None:
            raise GpuLost(f"no GPU at {pci}")
        return gpu

    def _card(self, state: SimulatedState, pci: str) -> tuple[Gpu, Card]:
        gpu = self._gpu(pci)
        if pci in state.absent:
            raise GpuLost(f"no GPU at {pci}: it was pulled out")
        if state.cards[pci].lost:
            raise GpuLost(f"{pci}: GPU is lost")
        return gpu, state.cards[pci]

    async def _wait_for_programs(self, engine: str) -> None:
        """Give programs a moment to leave: that they were ended is heard a little later than from a kernel."""
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
    """A GPU's facts as they are now."""
    if (gpu.mig_enabled, gpu.vfio_bound) == (card.mig, card.vfio):
        return gpu
    return gpu._replace(mig_enabled=card.mig, vfio_bound=card.vfio)
