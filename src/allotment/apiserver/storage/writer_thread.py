"""The thread that writes: the only one beside the loop, so that an fsync holds up nobody.

It is given one piece of work at a time and answers on the loop that gave it. The first error is the last work: what a
disk holds after a failed write is unknown until it is read anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

from allotment.apiserver.storage.database_file import Disk, Row

#: Called on the loop with None, or with what went wrong.
Done = Callable[[OSError | None], None]
_Work = tuple[Sequence[Row], int, Done, asyncio.AbstractEventLoop]


class Writer:
    """Hands batches to the disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="allotment-store", daemon=True)
        self._thread.start()

    def write(self, rows: Sequence[Row], fold: int, done: Done, loop: asyncio.AbstractEventLoop) -> None:
        """Write rows, tell ``done``, then cut the log up to ``fold`` as far as new work leaves time."""
        self._work.put((rows, fold, done, loop))

    def close(self) -> None:
        """Finish what was given, and stop."""
        self._work.put(None)
        self._thread.join()

    def _run(self) -> None:
        fold = 0
        while (work := self._work.get()) is not None:
            rows, wanted, done, loop = work
            fold = max(fold, wanted)
            try:
                self._disk.append(rows)
            except OSError as error:
                _tell(loop, done, error)
                return
            _tell(loop, done, None)
            if fold:
                fold = self._folded(fold)

    def _folded(self, fold: int) -> int:
        """What is left to fold. An error here will come again with the next write, which can be told of it."""
        try:
            while self._disk.fold(fold):
                if not self._work.empty():
                    return fold
        except OSError:
            return fold
        return 0


def _tell(loop: asyncio.AbstractEventLoop, done: Done, error: OSError | None) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(done, error)
