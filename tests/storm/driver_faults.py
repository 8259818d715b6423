"""Faults of a driver that a storm must notice, each with what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from allotment.cdi.store import FolderStore
from allotment.drivers.preparation.checkpoint import Checkpoint
from allotment.drivers.preparation.node_driver import NodeDriver
from tests.storm.fault import Fault


def _recover_nothing() -> None:
    async def recover(driver: NodeDriver) -> None:
        driver._checkpoint.load()
        await driver._checkpoint.save()

    patch.object(NodeDriver, "recover", recover).start()


def _keep_cdi_files() -> None:
    def remove(store: FolderStore, name: str) -> None:
        pass

    patch.object(FolderStore, "remove", remove).start()


def _skip_saves() -> None:
    save, numbers = Checkpoint.save, count(1)

    async def save_most(checkpoint: Checkpoint, *arguments: Any) -> None:
        if next(numbers) % 3:
            await save(checkpoint, *arguments)

    patch.object(Checkpoint, "save", save_most).start()


FAULTS: Final[Mapping[str, Fault]] = {
    "a driver that starts does not undo what was incomplete": Fault(_recover_nothing, "entries that are not completed"),
    "the CDI files of unprepared claims stay": Fault(_keep_cdi_files, "CDI files"),
    "a third of the checkpoints is not written": Fault(_skip_saves, "claims that were answered and are missing"),
}
