"""The node that a driver runs on: name, boot ID, and storage that outlives the process.

On a real node the storage is files. A simulated node keeps everything in memory; the end of the process is its reboot.
During a rolling update, two processes of a driver use the same files: a process holds the checkpoint's lock while it
prepares, and reads the changes of the other one first.
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
_OWNER_BYTES = 64  # bytes in the lock file that identify its owner


class CheckpointLocked(Exception):
    """Raised if another process of the driver did not release the checkpoint in time."""


class CheckpointStorage(Protocol):
    """Storage of a checkpoint."""

    def load(self) -> bytes | None:
        """Return the data that any process saved last, or None."""
        ...

    async def save(self, data: bytes) -> None:
        """Replace the data; it is durable on return. Raises OSError."""
        ...

    async def set_aside(self, data: bytes) -> None:
        """Store data that could not be read next to the checkpoint, for analysis."""
        ...

    def changed(self) -> bool:
        """Whether another process has saved data since this one loaded or saved."""
        ...

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Exclude other processes. Raises CheckpointLocked after 10 s, with the process that holds the lock."""
        ...


class DriverHost(NamedTuple):
    """A driver's view of its node. A new ``boot_id`` means a reboot, which undoes all preparations.

    ``folder``: the driver's folder for metadata files, or None if the node has none.
    """

    node: str
    boot_id: str
    checkpoint: CheckpointStorage
    cdi: SpecStore
    folder: Path | None = None


def read_boot_id() -> str:
    """Return the boot ID of this machine."""
    return _BOOT_ID.read_text("ascii").strip()


class MemoryStorage:
    """Storage that lives as long as the process."""

    def __init__(self, data: bytes | None = None) -> None:
        self.data = data
        self.unreadable: list[bytes] = []
        self._lock = asyncio.Lock()

    def load(self) -> bytes | None:
        return self.data

    async def save(self, data: bytes) -> None:
        self.data = data

    async def set_aside(self, data: bytes) -> None:
        self.unreadable.append(data)

    def changed(self) -> bool:
        """Always False: there is no other process."""
        return False

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Exclude other users of the same object."""
        async with self._lock:
            yield


class FileStorage:
    """A file that is replaced atomically, with ``<file>.lock`` and ``<file>.unreadable`` next to it.

    A save has one fsync, of the new file before it is renamed. The folder is not synced: after a crash of the machine
    the content of the checkpoint is void anyway.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_stamp: tuple[int, int, int] | None = None

    def load(self) -> bytes | None:
        self._last_stamp = self._stamp()
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
        """Replace the file; return a function that closes the old one, which keeps the rename from freeing its blocks.

        Freeing them takes a file system longer than everything else, and the claim need not wait for it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        close = self._open_replaced()
        try:
            atomic_write.replace(self.path, data, sync=Sync.CONTENT, single_writer=True)
        except OSError:
            if close is not None:
                close()
            raise
        self._last_stamp = self._stamp()
        return close

    def _open_replaced(self) -> Callable[[], object] | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        return weakref.finalize(self, os.close, descriptor)

    async def set_aside(self, data: bytes) -> None:
        """Append the data to the ``.unreadable`` file as a line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        path = self.path.with_name(f"{self.path.name}.unreadable")
        with private.open_append(path) as file:
            file.write(data.rstrip(b"\n") + b"\n")

    def changed(self) -> bool:
        """Whether the file differs from the one that this process last read or wrote."""
        return self._stamp() != self._last_stamp

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Lock with flock, which the kernel releases when the process ends."""
        path = self.path.with_name(f"{self.path.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            await self._acquire(descriptor)
            os.pwrite(
                descriptor, f"process {os.getpid()} (since {stamp(datetime.now(UTC))})".ljust(_OWNER_BYTES).encode(), 0
            )
            yield
        finally:
            os.close(descriptor)

    async def _acquire(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if loop.time() >= deadline:
                    owner = (
                        os.pread(descriptor, _OWNER_BYTES, 0).decode("utf-8", "replace").strip() or "another process"
                    )
                    raise CheckpointLocked(
                        f"{self.path}.lock is held by {owner}: waited {_WAIT_SECONDS:g} s for the other "
                        "instance of this driver; the kubelet will retry"
                    ) from None
                await asyncio.sleep(_POLL_SECONDS)
            else:
                return
