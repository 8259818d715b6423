"""The writer thread, which keeps fsync off the event loop.

It processes one batch at a time and reports on the loop that submitted it. It stops at the first error, because after a
failed write the state on disk is unknown until it is read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from allotment.apiserver.storage.database_file import DatabaseFile, LogRow

#: Called on the loop with None or the error.
Done = Callable[[OSError | None], None]
_Work = tuple[Sequence[LogRow], int, Done, asyncio.AbstractEventLoop]


class Writer:
    """Writes batches to the database file in a thread."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="allotment-store", daemon=True)
        self._thread.start()

    def write(self, rows: Sequence[LogRow], fold: int, done: Done, loop: asyncio.AbstractEventLoop) -> None:
        """Write rows, call ``done``, then merge the log up to ``fold`` while there is no other batch."""
        self._queue.put((rows, fold, done, loop))

    def close(self) -> None:
        """Finish all submitted batches and stop the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        fold = 0
        while (batch := self._queue.get()) is not None:
            rows, fold_to, done, loop = batch
            fold = max(fold, fold_to)
            try:
                self._file.append(rows)
            except OSError as error:
                _notify(loop, done, error)
                return
            _notify(loop, done, None)
            if fold:
                fold = self._fold(fold)

    def _fold(self, fold: int) -> int:
        """Merge the log; returns the revision still to merge, or 0. The next write reports an error."""
        try:
            while self._file.fold(fold):
                if not self._queue.empty():
                    return fold
        except OSError:
            return fold
        return 0


def _notify(loop: asyncio.AbstractEventLoop, done: Done, error: OSError | None) -> None:
    with suppress(RuntimeError):  # the loop is closed: no waiter is left
        loop.call_soon_threadsafe(done, error)
