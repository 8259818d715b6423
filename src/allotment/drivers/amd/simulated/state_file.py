"""What simulated AMD GPUs are set to, in a folder, where it outlives a driver: modes, and who drives functions."""

from __future__ import annotations

from pathlib import Path

import msgspec

from allotment.files import writing
from allotment.files.writing import PUBLIC, Sync


class SimulatedState(msgspec.Struct):
    """By PCI address. ``modes``: compute and memory mode; ``waiting``: memory modes until the module is loaded anew."""

    modes: dict[str, tuple[str, str]] = {}
    waiting: dict[str, str] = {}
    drivers: dict[str, str] = {}
    overrides: dict[str, str] = {}


class StateFile:
    """A file of settings, replaced as a whole; in memory nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / "hardware.json"

    def read(self) -> SimulatedState:
        """What was written last; nothing is set on hardware that is new."""
        try:
            return SimulatedState() if self._file is None else msgspec.json.decode(self._file.read_bytes(), type=SimulatedState)
        except FileNotFoundError:
            return SimulatedState()

    def write(self, settings: SimulatedState) -> None:
        """Keep it. No fsync: what it must outlive is the driver, not the machine. Raises OSError."""
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        writing.replace(self._file, msgspec.json.encode(settings), mode=PUBLIC, sync=Sync.NONE)
