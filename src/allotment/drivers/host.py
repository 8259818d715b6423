"""The node that a driver works on: its name, this boot of it, and where things are kept that must outlive a process.

On a real node these are files. A simulated node keeps them in memory: its "reboot" is the end of the process. Two
processes of one driver meet on the files while a rolling update replaces one by the other; whoever prepares holds the
lock of the checkpoint, and reads again what the other has written meanwhile.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from allotment.cdi.store import SpecStore
from allotment.cluster.clock import stamp
from allotment.files import atomic_write, private
from allotment.files.atomic_write import Sync

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.02
_OWNER_BYTES = 64  # bytes of the lock file that say who holds it


class CheckpointLocked(Exception):
    """Another process of the driver did not let go of the checkpoint in time."""


class CheckpointStorage(Protocol):
    """Where a checkpoint is kept."""

    def load(self) -> bytes | None:
        """What was saved last, by whomever; None for nothing yet."""
        ...

    async def save(self, data: bytes) -> None:
        """Replace it. Returned means: it outlives this process. Raises OSError."""
        ...

    async def set_aside(self, data: bytes) -> None:
        """Keep what could not be read, beside the checkpoint, for a person to look at."""
        ...

    def changed(self) -> bool:
        """Whether another process saved since this one loaded or saved."""
        ...

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Keep other processes out. Raises Held after 10 s, saying who holds it."""
        ...


class DriverHost(NamedTuple):
    """A node. ``boot_id``: another one means that the node was restarted, which undoes all that was prepared.

    ``folder``: the driver's own, for what containers are to read of their devices; None where there are no such files.
    """

    node: str
    boot_id: str
    checkpoint: CheckpointStorage
    cdi: SpecStore
    folder: Path | None = None


def read_boot_id() -> str:
    """Of the machine that this process runs on."""
    return _BOOT_ID.read_text("ascii").strip()


class MemoryStorage:
    """For nodes that live no longer than this process."""

    def __init__(self, data: bytes | None = None) -> None:
        self.data = data
        self.unreadable: list[bytes] = []
        self._lock = asyncio.Lock()

    def load(self) -> bytes | None:
        """What was saved last."""
        return self.data

    async def save(self, data: bytes) -> None:
        """Replace it."""
        self.data = data

    async def set_aside(self, data: bytes) -> None:
        """Keep what could not be read."""
        self.unreadable.append(data)

    def changed(self) -> bool:
        """Never: there is no other process."""
        return False

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Keep out others who use the same object."""
        async with self._lock:
            yield


class FileStorage:
    """A file, replaced as a whole; the lock is ``<file>.lock``, what could not be read goes to ``<file>.unreadable``.

    One fsync for each save, of the new file before it takes the old one's name. The folder needs none: what it would
    protect against is a crash of the machine, and after that everything in the checkpoint is void anyway.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    def load(self) -> bytes | None:
        """What was saved last."""
        self._seen = self._stamp()
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    async def save(self, data: bytes) -> None:
        """Replace the file. Raises OSError."""
        close = await asyncio.to_thread(self._save, data)
        if close is not None:
            asyncio.get_running_loop().run_in_executor(None, close)

    def _save(self, data: bytes) -> Callable[[], object] | None:
        """Returns what closes the replaced file. Until then it is open, so the rename does not free its blocks.

        Freeing them takes a file system longer than all the rest, and a claim does not have to wait for it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        close = self._open_replaced()
        try:
            atomic_write.replace(self.path, data, sync=Sync.CONTENT, single_writer=True)
        except OSError:
            if close is not None:
                close()
            raise
        self._seen = self._stamp()
        return close

    def _open_replaced(self) -> Callable[[], object] | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        return weakref.finalize(self, os.close, descriptor)

    async def set_aside(self, data: bytes) -> None:
        """Add to the side file, a line each."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        side = self.path.with_name(f"{self.path.name}.unreadable")
        with private.open_append(side) as file:
            file.write(data.rstrip(b"\n") + b"\n")

    def changed(self) -> bool:
        """Whether the file is not the one that this process read or wrote."""
        return self._stamp() != self._seen

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """An flock: it is gone with the process that held it, however that ended."""
        path = self.path.with_name(f"{self.path.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await self._acquire(descriptor)
            os.pwrite(
                descriptor, f"process {os.getpid()} since {stamp(datetime.now(UTC))}".ljust(_OWNER_BYTES).encode(), 0
            )
            yield
        finally:
            os.close(descriptor)

    async def _acquire(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if loop.time() >= until:
                    who = os.pread(descriptor, _OWNER_BYTES, 0).decode("utf-8", "replace").strip() or "another process"
                    raise CheckpointLocked(
                        f"{who} holds {self.path}.lock: waited {_WAIT_SECONDS:g} s for the other instance of this "
                        "driver to finish; it will be tried again"
                    ) from None
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return
