"""Results of a replay in a folder: a file for each run, written at once or not at all, and never made a second time.

So a replay can be stopped at any moment, also by ``kill -9``, and goes on where it was: what is lost is a run that was
being made. Each file has the fingerprint of its question, and counts only for the same one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from allotment.tools.replay.report import Outcome

_RUNS: Final = "runs"


class Folder:
    """Where results are kept."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Make the folder, and clear away what a run that was killed left half written."""
        (self.path / _RUNS).mkdir(parents=True, exist_ok=True)
        for half in (self.path / _RUNS).glob(".*.tmp"):
            half.unlink(missing_ok=True)

    def find(self, policy: str, seed: int, fingerprint: str) -> Outcome | None:
        """The outcome of a run that was made before, of this question; None if there is none that can be read."""
        try:
            outcome = msgspec.json.decode(self._file(policy, seed).read_bytes(), type=Outcome)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return outcome if outcome.fingerprint == fingerprint else None

    def keep(self, outcome: Outcome) -> None:
        """Write the outcome of a run."""
        self.write(self._file(outcome.policy, outcome.seed), msgspec.json.encode(outcome))

    def write(self, path: Path, content: bytes) -> None:
        """Write a file so that it is there whole or, after a crash, as it was before."""
        half = path.with_name(f".{path.name}.tmp")
        with half.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)

    def _file(self, policy: str, seed: int) -> Path:
        return self.path / _RUNS / f"{policy}-{seed}.json"
