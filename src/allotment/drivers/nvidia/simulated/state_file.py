"""Storage of the state of simulated hardware: in memory, or in a folder, where it outlives the driver.

In a folder every change is one rename, under a lock: a driver that is killed at any point leaves a complete state, and
two drivers (an old one and its successor) see the same hardware.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from allotment.drivers.nvidia.simulated.state import SimulatedState
from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync

_FILE = "hardware.json"


class StateFile:
    """The state, and its folder if there is one. ``initial_state``: makes the state of new hardware."""

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
                self._state = msgspec.json.decode((self._folder / _FILE).read_bytes(), type=SimulatedState)
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
