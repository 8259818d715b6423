"""The checkpoints of a driver and of a kubelet, which after a power cut are complete, in an earlier state or the last.

The programs print ``S number`` before the number is saved in both, and ``A number`` afterwards.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from allotment.drivers.host import FileStorage
from allotment.drivers.preparation.checkpoint import VERSION, Checkpoint, CheckpointEntry
from allotment.node import checkpoint as kubelet_checkpoint
from allotment.node.checkpoint import ClaimRecord, CorruptCheckpoint
from tests.power_cut.faults import plant

_SAVES: Final = 25


def main(folder: Path, fault: str) -> None:
    """Save a number in both checkpoints, again and again."""
    plant(fault)
    asyncio.run(_save(folder))


async def _save(folder: Path) -> None:
    checkpoint = _checkpoint(folder)
    checkpoint.load()
    for number in range(1, _SAVES + 1):
        os.write(1, f"S {number}\n".encode())
        plan = {"number": number, "text": "x" * (number * 300 % 7000)}
        checkpoint.put(f"uid-{number % 3}", CheckpointEntry(VERSION, "completed", "ns", f"claim-{number}", plan))
        await checkpoint.save()
        claim = ClaimRecord("ns", f"claim-{number}", "uid", frozenset(("p",)), {})
        kubelet_checkpoint.save(folder / "kubelet", [claim])
        os.write(1, f"A {number}\n".encode())


def _checkpoint(folder: Path) -> Checkpoint:
    return Checkpoint(FileStorage(folder / "plugins" / "checkpoint.json"), "gpu.example.com", "boot")


class CheckpointsSubject:
    """The numbers that were saved."""

    def __init__(self) -> None:
        self._sent = 0

    def printed(self, line: str) -> None:
        verb, number = line.split(" ")
        if verb == "S":
            self._sent = int(number)

    def problem(self, folder: Path) -> str:
        checkpoint = _checkpoint(folder)
        checkpoint.load()
        if checkpoint.lost:
            return "the checkpoint of the driver cannot be read"
        numbers = {uid: int(str(entry.plan["number"])) for uid, entry in checkpoint}
        last = max(numbers.values(), default=0)
        expected = {f"uid-{number % 3}": number for number in range(max(1, last - 2), last + 1)}
        if last > self._sent or numbers != expected:
            return f"the checkpoint of the driver has the claims {numbers}, which are of no time"
        try:
            records = kubelet_checkpoint.load(folder / "kubelet")
        except CorruptCheckpoint as error:
            return f"the checkpoint of the kubelet: {error}"
        if any(int(record.name.removeprefix("claim-")) > self._sent for record in records):
            return f"the checkpoint of the kubelet has {records}"
        return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
