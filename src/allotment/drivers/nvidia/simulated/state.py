"""The state of a simulated node's GPUs, its transitions (functions on plain data), and the file that stores it.

Limited to the rules that make a driver fail on real hardware: placements in memory and engines are exclusive, a profile
has a maximum number of instances, a GPU instance without a compute instance blocks its placement, a MIG device has a
new UUID each time, MIG must be enabled in advance on Ampere, a GPU in exclusive mode has one MPS daemon, and nothing is
changed while it is in use.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from allotment.decoding import decodable
from allotment.drivers.nvidia.hardware import ComputeMode, HardwareError, MigDevice, MpsDaemon
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync
from allotment.fleet.identity import name_uuid
from allotment.fleet.mig import DIMENSIONS, MigPlacement, totals
from allotment.fleet.nvidia import Gpu
from allotment.fleet.profiles import Mig, MigProfile


class GpuInstance(msgspec.Struct):
    """A GPU instance. Without a compute instance (``uuid`` empty) it is unusable, but its placement is taken."""

    profile_id: int
    start: int
    gpu_instance: int
    uuid: str = ""


class Card(msgspec.Struct, omit_defaults=True):
    """The settings of one GPU."""

    mig: bool = False
    instances: list[GpuInstance] = []
    mode: ComputeMode = "DEFAULT"
    interval: int = 0
    vfio: bool = False
    lost: bool = False

    def find(self, profile_id: int, start: int) -> GpuInstance | None:
        """The GPU instance of a profile at a start."""
        for instance in self.instances:
            if (instance.profile_id, instance.start) == (profile_id, start):
                return instance
        return None


class SimulatedState(msgspec.Struct, omit_defaults=True):
    """All state that outlives a driver. ``serial``: number of MIG devices created so far; ``absent``: removed GPUs."""

    cards: dict[str, Card] = {}
    daemons: dict[str, MpsDaemon] = {}
    serial: int = 0
    absent: list[str] = []


def initial_card(gpu: Gpu) -> Card:
    """The settings of a GPU after a reset or a reboot."""
    return Card(mig=gpu.mig_enabled)


def reset_gpu(state: SimulatedState, gpu: Gpu) -> None:
    """Reset a GPU's settings and MIG devices, and remove the daemons that used it."""
    uuids = {gpu.uuid}
    if gpu.pci in state.cards:
        uuids.update(instance.uuid for instance in state.cards[gpu.pci].instances)
    state.daemons = {key: daemon for key, daemon in state.daemons.items() if uuids.isdisjoint(daemon.uuids)}
    state.cards[gpu.pci] = initial_card(gpu)


def profile_of(gpu: Gpu, profile_id: int) -> MigProfile:
    """The MIG profile with an id. Raises HardwareError."""
    for profile in gpu.mig.profiles if gpu.mig else ():
        if profile.gi_id == profile_id:
            return profile
    raise HardwareError(f"{gpu.pci}: {gpu.product} has no MIG profile with id {profile_id}")


# --- MIG --------------------------------------------------------------------------------------------------------------


def switch_mig_on(state: SimulatedState, card: Card, gpu: Gpu) -> None:
    """Enable MIG. Raises HardwareError."""
    if card.mig:
        return
    if gpu.mig is None:
        raise HardwareError(f"{gpu.pci}: {gpu.product} has no MIG: Not Supported")
    if gpu.mig.reset_to_toggle:
        raise HardwareError(f"{gpu.pci}: MIG is disabled, and {gpu.product} needs a reset to enable it")
    _check_unused(state, card, gpu, "enable MIG")
    card.mig = True


def switch_mig_off(card: Card, gpu: Gpu) -> None:
    """Disable MIG if the GPU has no instances and MIG was disabled initially."""
    if not card.instances and not gpu.mig_enabled:
        card.mig = False


def disable_mig(card: Card, gpu: Gpu) -> None:
    """Disable MIG. Raises HardwareError if that is not possible."""
    if card.mig:
        if card.instances:
            raise HardwareError(f"{gpu.pci}: disable MIG: In use by another client (MIG devices)")
        if gpu.mig is not None and gpu.mig.reset_to_toggle:
            raise HardwareError(f"{gpu.pci}: {gpu.product} needs a reset to disable MIG")
        card.mig = False


def make_gpu_instance(card: Card, gpu: Gpu, profile_id: int, start: int) -> GpuInstance:
    """Create the first half of a MIG device: a GPU instance, with memory and engines. Raises HardwareError."""
    existing = card.find(profile_id, start)
    if existing is not None:
        return existing
    profile, mig = profile_of(gpu, profile_id), gpu.mig
    assert mig is not None
    action = f"{gpu.pci}: create GPU instance {profile.name} at {start}"
    if start not in profile.starts:
        raise HardwareError(f"{action}: possible starts are {', '.join(map(str, profile.starts))}")
    _check_placement(card, mig, profile, start, gpu, action)
    whole = profile.size == mig.memory_slices
    taken = {instance.gpu_instance for instance in card.instances}
    number = 0 if whole else next(n for n in range(1, len(taken) + 2) if n not in taken)
    instance = GpuInstance(profile_id, start, number)
    card.instances.append(instance)
    return instance


def _check_placement(card: Card, mig: Mig, profile: MigProfile, start: int, gpu: Gpu, action: str) -> None:
    slices = set(MigPlacement(profile, start).slices)
    others = [(profile_of(gpu, instance.profile_id), instance.start) for instance in card.instances]
    for other, other_start in others:
        if slices.intersection(MigPlacement(other, other_start).slices):
            raise HardwareError(f"{action}: Insufficient Resources: {other.name} at {other_start} overlaps")
    if sum(other is profile for other, _ in others) >= profile.max_instances:
        raise HardwareError(f"{action}: Insufficient Resources: at most {profile.max_instances} of that profile")
    for field, total in totals(mig).items():
        if getattr(profile, field) + sum(getattr(other, field) for other, _ in others) > total:
            label = next(label for name, label, _ in DIMENSIONS if name == field)
            raise HardwareError(f"{action}: Insufficient Resources: no {label} left")


def make_compute_instance(state: SimulatedState, instance: GpuInstance, gpu: Gpu) -> None:
    """Create the second half, which gives the MIG device a new UUID."""
    if not instance.uuid:
        state.serial += 1
        instance.uuid = f"MIG-{name_uuid(f'{gpu.uuid}/{state.serial}')}"


def destroy_instance(state: SimulatedState, card: Card, gpu: Gpu, instance: GpuInstance) -> None:
    """Destroy both halves. Raises HardwareError."""
    for daemon in state.daemons.values():
        if instance.uuid in daemon.uuids:
            raise HardwareError(f"{gpu.pci}: destroy {instance.uuid}: In use by another client (MPS {daemon.key})")
    card.instances.remove(instance)


def device_of(gpu: Gpu, instance: GpuInstance) -> MigDevice:
    """The MIG device of a complete GPU instance."""
    return MigDevice(gpu.pci, instance.profile_id, instance.start, instance.uuid, instance.gpu_instance, 0)


# --- sharing ----------------------------------------------------------------------------------------------------------


def start_daemon(state: SimulatedState, gpus: dict[str, Gpu], daemon: MpsDaemon) -> None:
    """Start an MPS control daemon for GPUs or MIG devices. Raises HardwareError."""
    running = state.daemons.get(daemon.key)
    if running is not None:
        if running != daemon:
            raise HardwareError(f"MPS daemon {daemon.key} is already running with other settings")
        return
    for uuid in daemon.uuids:
        gpu, card = _owner(state, gpus, uuid)
        if uuid == gpu.uuid and card.mig:
            raise HardwareError(f"MPS daemon {daemon.key}: {uuid} is in MIG mode")
        if card.vfio:
            raise HardwareError(f"MPS daemon {daemon.key}: {uuid} is bound to vfio-pci")
        for other in state.daemons.values():
            if uuid in other.uuids and card.mode == "EXCLUSIVE_PROCESS":
                raise HardwareError(f"MPS daemon {daemon.key}: {uuid} is owned exclusively by {other.key}")
    state.daemons[daemon.key] = daemon


def _owner(state: SimulatedState, gpus: dict[str, Gpu], uuid: str) -> tuple[Gpu, Card]:
    for pci, gpu in gpus.items():
        card = state.cards[pci]
        if uuid == gpu.uuid or any(instance.uuid == uuid for instance in card.instances):
            return gpu, card
    raise HardwareError(f"no device {uuid}")


def set_compute_mode(state: SimulatedState, card: Card, gpu: Gpu, mode: ComputeMode) -> None:
    """Set which processes can use a GPU. Raises HardwareError."""
    daemons = [daemon.key for daemon in state.daemons.values() if gpu.uuid in daemon.uuids]
    if mode == "EXCLUSIVE_PROCESS" and card.mode != mode and len(daemons) > 1:
        raise HardwareError(f"{gpu.pci}: EXCLUSIVE_PROCESS: used by {', '.join(daemons)}")
    card.mode = mode


def bind_vfio(state: SimulatedState, card: Card, gpu: Gpu, bound: bool) -> None:
    """Bind a GPU to vfio-pci, or back; resets the driver's settings. Raises HardwareError."""
    if card.vfio != bound:
        if bound:
            _check_unused(state, card, gpu, "bind to vfio-pci")
        card.vfio, card.mode, card.interval = bound, "DEFAULT", 0


def _check_unused(state: SimulatedState, card: Card, gpu: Gpu, action: str) -> None:
    users = [daemon.key for daemon in state.daemons.values() if gpu.uuid in daemon.uuids]
    if card.vfio:
        users.append("vfio-pci")
    users.extend(instance.uuid or "a GPU instance" for instance in card.instances)
    if users:
        raise HardwareError(f"{gpu.pci}: {action}: In use by another client ({', '.join(users)})")


_FILE = "hardware.json"


class StateFile:
    """The state: in memory, or in a folder, where it outlives the driver.

    In a folder every change is one rename, under a lock: a driver that is killed at any point leaves a complete state,
    and two drivers (an old one and its successor) see the same hardware. ``initial_state``: makes the state of new
    hardware.
    """

    def __init__(self, folder: Path | None, initial_state: Callable[[], SimulatedState]) -> None:
        self._folder = folder
        self._stamp: tuple[int, int] | None = None
        self._state = SimulatedState()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        if folder is None or not (folder / _FILE).exists():
            self._state = initial_state()
            self._write()

    def read(self) -> SimulatedState:
        """The current state; must not be changed."""
        if self._folder is not None:
            status = (self._folder / _FILE).stat()
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp != self._stamp:
                self._state = msgspec.json.decode((self._folder / _FILE).read_bytes(), type=decodable(SimulatedState))
                self._stamp = stamp
        return self._state

    @contextmanager
    def change(self) -> Iterator[SimulatedState]:
        """Change the state atomically. An exception must be raised before any change."""
        if self._folder is None:
            yield self._state
            return
        with (self._folder / "hardware.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read()
            self._write()

    def _write(self) -> None:
        if self._folder is None:
            return
        # No fsync: the state has to outlive the driver's process, not a crash of the machine.
        atomic_write.replace(self._folder / _FILE, msgspec.json.encode(self._state), mode=PUBLIC, sync=Sync.NONE)
        status = (self._folder / _FILE).stat()
        self._stamp = (status.st_ino, status.st_mtime_ns)

    # --- folders of MPS daemons -----------------------------------------------------------------------------------

    def mps_folder(self, key: str) -> Path | None:
        """The folder of a daemon; None without a folder for the state."""
        return None if self._folder is None else self._folder / "mps" / key

    def make_mps_folder(self, key: str) -> None:
        """Create the folder with the daemon's pipe, shared memory and log."""
        folder = self.mps_folder(key)
        if folder is not None:
            for part in ("pipe", "shm", "log"):
                (folder / part).mkdir(parents=True, exist_ok=True)

    def remove_mps_folder(self, key: str) -> None:
        """Remove the folder, if it exists."""
        folder = self.mps_folder(key)
        # A process that is being killed may still write to the folder.
        while folder is not None and folder.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
