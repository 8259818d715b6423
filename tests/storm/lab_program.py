"""``allot`` with a slow disk, a short history, or a planted fault: ``python -m tests.storm.lab_program …``.

The environment sets them, because the arguments are those of ``allot``. On a slow disk, the moment between a write and
its durability is long enough to be hit by a kill.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Final
from unittest.mock import patch

from allotment.apiserver.storage.database_file import DatabaseFile, LogRow
from allotment.apiserver.storage.history import DEFAULT_WINDOW
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.cli.main import main
from tests.storm.faults import FAULTS, PAUSE_FAULTS

FAULT: Final = "STORM_FAULT"
DISK_SECONDS: Final = "STORM_DISK_SECONDS"
HISTORY: Final = "STORM_HISTORY"


def _slow_down(seconds: float) -> None:
    append = DatabaseFile.append

    def append_slowly(file: DatabaseFile, rows: Sequence[LogRow]) -> None:
        time.sleep(seconds)
        append(file, rows)

    patch.object(DatabaseFile, "append", append_slowly).start()


def _shorten_history(number: int) -> None:
    window = DEFAULT_WINDOW._replace(number=number)
    patch.object(SqliteStore, "open", partial(SqliteStore.open, history=window)).start()


if __name__ == "__main__":
    if fault := os.environ.get(FAULT):
        {**FAULTS, **PAUSE_FAULTS}[fault].plant()
    if seconds := float(os.environ.get(DISK_SECONDS) or 0):
        _slow_down(seconds)
    if number := int(os.environ.get(HISTORY) or 0):
        _shorten_history(number)
    sys.exit(main())
