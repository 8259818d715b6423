"""The files of a simulated container: directories and files in memory, and volumes, whose files are read when used.

The files of an image are not known, so there are only the directories that every image has, what the kubelet and the
runtime add (``/etc/hosts``, device nodes, volumes), and what the container has written itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

#: Bytes that one container may write, and the number of its files.
MAX_BYTES: Final = 16 * 2**20
MAX_FILES: Final = 10_000
_DIRECTORIES: Final = (
    "bin", "dev", "etc", "home", "lib", "mnt", "opt", "proc", "root", "run", "sbin", "sys", "tmp", "usr/bin", "usr/lib",
    "usr/local/bin", "var/log", "var/run", "var/tmp",
)  # fmt: skip
_DEVICES: Final = ("null", "random", "tty", "urandom", "zero")

#: Reads the files of a volume: contents by relative path.
ReadVolume = Callable[[], Awaitable[Mapping[str, bytes]]]


class File:
    """A regular file."""

    def __init__(self, data: bytes = b"", mode: int = 0o644) -> None:
        self.data = bytearray(data)
        self.mode = mode


class Device:
    """A device node."""

    mode = 0o666


class Directory:
    """A directory. ``read``: reads its files, for a volume whose content Kubernetes defines."""

    def __init__(self, *, read_only: bool = False, read: ReadVolume | None = None) -> None:
        self.children: dict[str, Entry] = {}
        self.mode = 0o755
        self.read_only = read_only
        self.read = read

    async def refresh(self) -> None:
        """Read the files of a volume again."""
        if self.read is None:
            return
        files = await self.read()
        self.children.clear()
        for path, data in files.items():
            *above, name = path.split("/")
            place = self
            for part in above:
                inner = place.children.setdefault(part, Directory(read_only=True))
                place = inner if isinstance(inner, Directory) else place
            place.children[name] = File(data)


Entry = File | Device | Directory
#: A volume, or with ``subPath`` what it contains at that path.
MountedVolume = File | Directory


def failure(number: int, path: str) -> OSError:
    """The OSError of an error number, whose ``strerror`` is what programs print."""
    return OSError(number, os.strerror(number), path)


class ContainerFiles:
    """The file system of a container. Paths are absolute, or relative to the given directory.

    ``volumes`` by mount path; they may be shared with other containers of the pod.
    """

    def __init__(
        self, volumes: Mapping[str, MountedVolume] | None = None, nodes: Iterable[str] = (),
        files: Mapping[str, bytes] | None = None, *, read_only_root: bool = False, working_directory: str = "/",
    ) -> None:  # fmt: skip
        #: The background commands of all shells of the container, which share a limit.
        self.background: set[asyncio.Task[int]] = set()
        self._root = Directory()
        self._bytes = 0
        self._files = 0
        for path in _DIRECTORIES:
            self._made(path)
        for name in _DEVICES:
            self._made("dev").children[name] = Device()
        for path in nodes:
            above, _, name = path.strip("/").rpartition("/")
            if name:
                self._made(above).children[name] = Device()
        for path, data in (files or {}).items():
            above, _, name = path.strip("/").rpartition("/")
            self._made(above).children[name] = File(data)
        for path, volume in sorted((volumes or {}).items()):
            above, _, name = posixpath.normpath(path).strip("/").rpartition("/")
            if name:
                self._made(above).children[name] = volume
        self._made(working_directory)
        if read_only_root:
            for directory in _directories(self._root, list((volumes or {}).values())):
                directory.read_only = True

    def _made(self, path: str) -> Directory:
        place = self._root
        for part in filter(None, path.split("/")):
            inner = place.children.get(part)
            if not isinstance(inner, Directory):
                inner = place.children[part] = Directory()
            place = inner
        return place

    # --- look-ups -------------------------------------------------------------------------------------------------

    async def find(self, path: str, directory: str = "/") -> Entry | None:
        """The entry at a path; None if there is none."""
        place: Entry = self._root
        for part in _parts(path, directory):
            if not isinstance(place, Directory):
                return None
            if place.read is not None:
                await place.refresh()
            inner = place.children.get(part)
            if inner is None:
                return None
            place = inner
        if isinstance(place, Directory) and place.read is not None:
            await place.refresh()
        return place

    async def contents(self, path: str, directory: str = "/") -> bytes:
        """The content of a file. Raises OSError."""
        entry = await self.find(path, directory)
        if entry is None:
            raise failure(errno.ENOENT, path)
        if isinstance(entry, Directory):
            raise failure(errno.EISDIR, path)
        return bytes(entry.data) if isinstance(entry, File) else b""

    async def names(self, path: str, directory: str = "/") -> list[str]:
        """The sorted names in a directory. Raises OSError."""
        entry = await self.find(path, directory)
        if entry is None:
            raise failure(errno.ENOENT, path)
        if not isinstance(entry, Directory):
            raise failure(errno.ENOTDIR, path)
        return sorted(entry.children)

    # --- changes --------------------------------------------------------------------------------------------------

    async def write(self, path: str, data: bytes, directory: str = "/", *, append: bool = False) -> None:
        """Write a file. Raises OSError."""
        above, name = await self._above(path, directory)
        entry = above.children.get(name)
        if isinstance(entry, Directory):
            raise failure(errno.EISDIR, path)
        if isinstance(entry, Device):
            return
        if above.read_only or above.read is not None:
            raise failure(errno.EROFS, path)
        before = len(entry.data) if entry is not None else 0
        after = before + len(data) if append else len(data)
        if self._bytes + after - before > MAX_BYTES or (entry is None and self._files >= MAX_FILES):
            raise failure(errno.ENOSPC, path)
        self._bytes += after - before
        if entry is None:
            entry = above.children[name] = File()
            self._files += 1
        if not append:
            entry.data.clear()
        entry.data += data

    async def make_directory(self, path: str, directory: str = "/", *, parents: bool = False) -> None:
        """Create a directory. Raises OSError."""
        parts = _parts(path, directory)
        for place in range(1 if parents else max(len(parts), 1), len(parts) + 1):
            here = "/" + "/".join(parts[:place])
            above, name = await self._above(here)
            entry = above.children.get(name)
            if entry is not None and not (parents and isinstance(entry, Directory)):
                raise failure(errno.EEXIST, path)
            if entry is None:
                if above.read_only or above.read is not None:
                    raise failure(errno.EROFS, path)
                if self._files >= MAX_FILES:
                    raise failure(errno.ENOSPC, path)
                self._files += 1
                above.children[name] = Directory()

    async def remove(self, path: str, directory: str = "/", *, recursive: bool = False) -> None:
        """Remove a file, an empty directory, or all below it. Raises OSError."""
        above, name = await self._above(path, directory)
        entry = above.children.get(name)
        if entry is None:
            raise failure(errno.ENOENT, path)
        if above.read_only or above.read is not None:
            raise failure(errno.EROFS, path)
        if isinstance(entry, Directory) and entry.children and not recursive:
            raise failure(errno.ENOTEMPTY, path)
        self._forget(entry)
        del above.children[name]

    def _forget(self, entry: Entry) -> None:
        self._files = max(self._files - 1, 0)
        if isinstance(entry, File):
            self._bytes = max(self._bytes - len(entry.data), 0)
        if isinstance(entry, Directory):
            for inner in entry.children.values():
                self._forget(inner)

    async def _above(self, path: str, directory: str = "/") -> tuple[Directory, str]:
        """The directory that contains a path, and the last part of the path. Raises OSError."""
        parts = _parts(path, directory)
        if not parts:
            raise failure(errno.EISDIR, path)
        if path.endswith("/") and not isinstance(await self.find(path, directory), Directory | None):
            raise failure(errno.ENOTDIR, path)
        above = await self.find("/" + "/".join(parts[:-1]))
        if above is None:
            raise failure(errno.ENOENT, path)
        if not isinstance(above, Directory):
            raise failure(errno.ENOTDIR, path)
        return above, parts[-1]


def absolute(path: str, directory: str) -> str:
    """A path without ``.`` and ``..``, as seen from a directory.

    >>> absolute("../etc/./hosts", "/var"), absolute("", "/var")
    ('/etc/hosts', '/var')
    """
    return "/" + "/".join(_parts(path, directory))


def _parts(path: str, directory: str) -> list[str]:
    parts: list[str] = []
    for part in f"{'' if path.startswith('/') else directory}/{path}".split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return parts


def _directories(directory: Directory, volumes: Sequence[MountedVolume]) -> Iterator[Directory]:
    """A directory and those in it, without volumes."""
    yield directory
    for entry in directory.children.values():
        if isinstance(entry, Directory) and not any(entry is volume for volume in volumes):
            yield from _directories(entry, volumes)
