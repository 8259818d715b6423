"""Faults that the test must notice: each function makes the program that calls it lose data in a power cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from unittest.mock import patch

from allotment.api.objects import file_writer
from allotment.apiserver.storage.database_file import DatabaseFile
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.files import atomic_write, private


def plant(fault: str) -> None:
    """Plant a fault by its name; none for an empty one."""
    if fault:
        FAULTS[fault]()


def _pragma(setting: str) -> None:
    prepare = DatabaseFile._prepare

    def prepare_differently(file: DatabaseFile) -> None:
        prepare(file)
        file._connection.execute(f"PRAGMA {setting}")

    patch.object(DatabaseFile, "_prepare", prepare_differently).start()


def _acknowledge_early() -> None:
    async def durable(store: SqliteStore, revision: int | None = None) -> None:
        pass

    patch.object(SqliteStore, "durable", durable).start()


def _sync_no_files() -> None:
    patch("os.fsync").start()


def _sync_no_folders() -> None:
    for module in (atomic_write, file_writer, private):
        patch.object(module, "sync_folder").start()


FAULTS: Final[Mapping[str, Callable[[], None]]] = {
    "the store does not sync": lambda: _pragma("synchronous = OFF"),
    "the store syncs checkpoints only": lambda: _pragma("synchronous = NORMAL"),
    "writes are acknowledged before they are written": _acknowledge_early,
    "files are not synced": _sync_no_files,
    "folders are not synced": _sync_no_folders,
}
