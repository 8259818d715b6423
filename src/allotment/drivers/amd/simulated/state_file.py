"""The stored state of simulated AMD GPUs: modes and driver bindings, in a file that outlives the driver."""

from __future__ import annotations

from pathlib import Path

import msgspec

from allotment.files import atomic_write
from allotment.files.atomic_write import PUBLIC, Sync


class SimulatedState(msgspec.Struct):
    """State by PCI address. ``modes``: compute and memory mode; ``waiting``: memory modes until the module is
    reloaded.
    """

    modes: dict[str, tuple[str, str]] = {}
    waiting: dict[str, str] = {}
    drivers: dict[str, str] = {}
    overrides: dict[str, str] = {}


class StateFile:
    """A file with the state, replaced as a whole; without a folder nothing is stored."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / "hardware.json"

    def read(self) -> SimulatedState:
        """The stored state, or that of new hardware."""
        try:
            return (
                SimulatedState()
                if self._file is None
                else msgspec.json.decode(self._file.read_bytes(), type=SimulatedState)
            )
        except FileNotFoundError:
            return SimulatedState()

    def write(self, settings: SimulatedState) -> None:
        """Store the state. No fsync: it must outlive the driver, not a crash of the machine. Raises OSError."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.replace(self._file, msgspec.json.encode(settings), mode=PUBLIC, sync=Sync.NONE)
