"""The states that a power cut can leave on a disk: all that was synced is kept, and any part of the rest.

Of the unsynced changes of a file, any subset is kept, in their order; a write may be kept in part, by sectors. Of the
unsynced changes of a folder (create, rename, link, unlink), any subset is kept in which each change follows the earlier
ones of the same name or file. A sync of a file does not keep its name: the folder must be synced, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from random import Random
from typing import Final, NamedTuple, TypeVar

from tests.power_cut.recording import Operation

_SECTOR: Final = 512
#: The identity of a folder, which has no content of its own.
_FOLDER: Final = -1
#: By path: the content of a file; None: a folder.
Files = Mapping[str, bytes | None]


class _Write(NamedTuple):
    """An unsynced change of a file; ``data`` is None: truncated to ``position``."""

    number: int
    position: int
    data: bytes | None


class _Rename(NamedTuple):
    """An unsynced change of a folder: the files that names refer to afterwards; None: the name is gone."""

    number: int
    names: tuple[tuple[str, int | None], ...]
    file: int | None


_Change = TypeVar("_Change", _Write, _Rename)


class Disk:
    """The state after the operations applied so far."""

    def __init__(self, folder: Path) -> None:
        self._root = str(folder)
        self._number = 0
        self._files: dict[int, bytes] = {}
        self._writes: dict[int, list[_Write]] = {}
        self._names: dict[str, int] = {self._root: _FOLDER}
        self._renames: dict[str, list[_Rename]] = {}
        self._current: dict[str, int] = {self._root: _FOLDER}
        self._by_inode: dict[int, int] = {}
        self._folders: dict[int, str] = {}
        self._syncs: dict[tuple[int, int], int] = {}
        self._counter = 0

    def apply(self, operation: Operation) -> bool:
        """Apply an operation; whether it changed what may be on the disk."""
        self._number += 1
        action = _ACTIONS.get(operation.type)
        if action is None:
            return False
        action(self, operation)
        return operation.type not in "OB"

    def _create(self, operation: Operation) -> None:
        self._counter += 1
        self._by_inode[operation.identity] = self._counter
        self._files[self._counter] = b""
        self._change(operation.path, self._counter, (operation.path, self._counter))

    def _open_folder(self, operation: Operation) -> None:
        self._folders[operation.identity] = operation.path

    def _write(self, operation: Operation) -> None:
        data = operation.data if operation.type == "W" else None
        file = self._by_inode[operation.identity]
        self._writes.setdefault(file, []).append(_Write(self._number, operation.position, data))

    def _rename(self, operation: Operation) -> None:
        file = self._current[operation.path]
        self._change(operation.target, file, (operation.path, None), (operation.target, file))

    def _link(self, operation: Operation) -> None:
        file = self._current[operation.path]
        self._change(operation.target, file, (operation.target, file))

    def _remove(self, operation: Operation) -> None:
        self._change(operation.path, self._current[operation.path], (operation.path, None))

    def _make_folder(self, operation: Operation) -> None:
        self._change(operation.path, None, (operation.path, _FOLDER))

    def _change(self, path: str, file: int | None, *names: tuple[str, int | None]) -> None:
        _apply_names(self._current, names)
        self._renames.setdefault(_parent(path), []).append(_Rename(self._number, names, file))

    def _begin_sync(self, operation: Operation) -> None:
        self._syncs[operation.identity, operation.position] = self._number

    def _sync(self, operation: Operation) -> None:
        begin = self._syncs.pop((operation.identity, operation.position))
        folder = self._folders.get(operation.identity)
        if folder is not None:
            for change in _taken(self._renames.get(folder, []), begin):
                _apply_names(self._names, change.names)
            return
        file = self._by_inode[operation.identity]
        self._files[file] = _written(self._files[file], _taken(self._writes.get(file, []), begin))

    def states(self, random: Random, number: int) -> Iterable[Files]:
        """Some of the states in which a power cut can leave the disk, in random order."""
        for _ in range(number):
            if random.random() < 0.2:
                nothing = random.random() < 0.5
                yield self._state(_none, _none) if nothing else self._state(list, list)
                continue
            share, torn = random.choice((0.1, 0.5, 0.9)), random.choice((0.0, 0.3))
            writes = partial(_some_writes, random, share, torn)
            renames = partial(_some_renames, random, share, random.random() < 0.5)
            yield self._state(writes, renames)

    def _state(
        self, writes: Callable[[Sequence[_Write]], Iterable[_Write]],
        renames: Callable[[Sequence[_Rename]], Iterable[_Rename]],
    ) -> Files:  # fmt: skip
        names = dict(self._names)
        for changes in self._renames.values():
            for change in renames(changes):
                _apply_names(names, change.names)
        contents: dict[int, bytes] = {}
        found: dict[str, bytes | None] = {}
        for path, file in sorted(names.items()):
            if path != self._root and names.get(_parent(path)) != _FOLDER:
                continue  # its folder is not on the disk
            if file == _FOLDER:
                found[path] = None
                continue
            if file not in contents:
                contents[file] = _written(self._files[file], writes(self._writes.get(file, ())))
            found[path] = contents[file]
        return found


_ACTIONS: Final[Mapping[str, Callable[[Disk, Operation], None]]] = {
    "C": Disk._create, "O": Disk._open_folder, "W": Disk._write, "T": Disk._write, "R": Disk._rename, "L": Disk._link,
    "U": Disk._remove, "D": Disk._remove, "M": Disk._make_folder, "B": Disk._begin_sync, "S": Disk._sync,
}  # fmt: skip


def write_files(files: Files, folder: Path, target: Path) -> None:
    """Write a state to a folder that does not exist yet, as if it were the original one."""
    for path, content in files.items():
        place = target / PurePosixPath(path).relative_to(folder)
        if content is None:
            place.mkdir()
            place.chmod(0o700)
        else:
            place.write_bytes(content)
            place.chmod(0o600)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _apply_names(names: dict[str, int], changes: Iterable[tuple[str, int | None]]) -> None:
    for path, file in changes:
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file


def _taken(changes: list[_Change], before: int) -> list[_Change]:
    """Remove the changes before a moment from a list, and return them."""
    taken = [change for change in changes if change.number < before]
    changes[:] = [change for change in changes if change.number >= before]
    return taken


def _written(content: bytes, writes: Iterable[_Write]) -> bytes:
    result = bytearray(content)
    for _, position, data in writes:
        end = position + len(data or b"")
        if len(result) < end or data is None:
            del result[end:]
            result.extend(bytes(end - len(result)))
        if data is not None:
            result[position:end] = data
    return bytes(result)


def _none(changes: Sequence[_Change]) -> Sequence[_Change]:
    return ()


def _some_writes(random: Random, share: float, torn: float, writes: Sequence[_Write]) -> Iterable[_Write]:
    for write in writes:
        if random.random() >= share:
            continue
        if write.data is None or random.random() >= torn:
            yield write
            continue
        start, end = write.position, write.position + len(write.data)
        while start < end:
            stop = min(end, start - start % _SECTOR + _SECTOR)
            if random.random() < 0.5:
                yield write._replace(position=start, data=write.data[start - write.position : stop - write.position])
            start = stop


def _some_renames(random: Random, share: float, in_order: bool, changes: Sequence[_Rename]) -> Iterable[_Rename]:
    if in_order:  # as file systems with a journal
        return changes[: random.randint(0, len(changes))]
    kept: list[_Rename] = []
    missing: set[str | int | None] = set()
    for change in changes:
        touched = {change.file, *(path for path, _ in change.names)} - {None}
        if random.random() < share and not touched & missing:
            kept.append(change)
        else:
            missing |= touched
    return kept
