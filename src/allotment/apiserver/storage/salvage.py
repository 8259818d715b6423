"""Reads a database that may be damaged, as far as possible, and writes the objects to a new one.

The files are copied before SQLite opens them, because opening changes them. Every row is checked: it must be an object
with the name, namespace and revision of its columns, and the log has each revision once. What can be repaired is the
state at the last revision up to which all is readable.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.storage import database_file
from allotment.apiserver.storage.database_file import LogRow, UnsupportedDatabase, check_not_in_use
from allotment.apiserver.storage.wal_file import DAMAGE, content_of, unread_transactions
from allotment.files import private
from allotment.model.trees import Tree

#: Problems of one kind that are listed.
_LISTED: Final = 5
_decode = msgspec.json.Decoder(Tree).decode


class StoredObject(NamedTuple):
    """An object, with its JSON."""

    resource: str
    namespace: str
    name: str
    revision: int
    value: bytes

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace + '/' if self.namespace else ''}{self.name}"


class Salvaged(NamedTuple):
    """The readable part of a database. ``objects``: at ``revision``, the last one up to which the log is complete.

    ``newest``: the highest revision found, which is later if the log is damaged. ``problems``: none if all is readable.
    """

    objects: tuple[StoredObject, ...]
    revision: int
    newest: int
    problems: tuple[str, ...]


def read_damaged(path: Path) -> Salvaged:
    """Read a database without changing it.

    Raises DatabaseInUse, UnsupportedDatabase if nothing is readable, OSError. This process must not have it open.
    """
    check_not_in_use(path)
    with tempfile.TemporaryDirectory(prefix="allotment-check-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", *database_file.SUFFIXES[:2]):
            source = path.with_name(path.name + suffix)
            if source.exists():
                private.create_file(copy.with_name(copy.name + suffix))
                copy.with_name(copy.name + suffix).write_bytes(source.read_bytes())
        skipped = unread_transactions(content_of(copy.with_name(copy.name + "-wal")))
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.text_factory = bytes
            try:
                return _read(connection, skipped)
            except sqlite3.DatabaseError as error:
                raise UnsupportedDatabase(
                    f"{path} is not an Allotment store, or nothing in it is readable: {error}"
                ) from error


def write_new(path: Path, objects: Iterable[StoredObject], revision: int) -> None:
    """Write objects to a new database, durably; the file must not exist. ``revision``: of the last write.

    Clients that watch from an earlier revision have to list again.
    """
    file = database_file.DatabaseFile(path)
    try:
        file.fill([tuple(item) for item in objects], revision)
    finally:
        file.close()


def _read(connection: sqlite3.Connection, skipped: int) -> Salvaged:
    problems = _Problems()
    if skipped:
        problems.add("", DAMAGE.format(skipped))
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (database_file.APPLICATION, database_file.SCHEMA):
        raise UnsupportedDatabase("the file is another program's database, or of another version of Allotment")
    for text in _structure_problems(connection):
        problems.add("structure", text)
    objects: dict[tuple[str, str, str], StoredObject] = {}
    for row in _rows(connection, "SELECT rowid, resource, namespace, name, revision, value FROM objects", problems):
        found = _object(row[1:], problems)
        if found is not None:
            objects[found[:3]] = found
    start = _compacted(connection, problems)
    log = sorted(_log(connection, problems), key=lambda entry: entry[0])
    newest = max([start, *(item.revision for item in objects.values()), *(revision for revision, _ in log)])
    last = start or (log[0][0] - 1 if log else max(newest, database_file.FIRST_REVISION))
    for revision, change in log:
        if revision <= last:
            continue
        if revision != last + 1:
            problems.add("gap", f"revision {last + 1} is missing, the next one is {revision}")
            break
        if change is None:
            break
        key = (change.resource, change.namespace, change.name)
        if change.deleted:
            objects.pop(key, None)
        else:
            objects[key] = StoredObject(*key, revision, change.value)
        last = revision
    return Salvaged(tuple(objects.values()), last, newest, tuple(problems))


def _structure_problems(connection: sqlite3.Connection) -> Iterator[str]:
    """Damage that SQLite finds; pages that a damaged page referred to are not listed."""
    try:
        for (text,) in connection.execute("PRAGMA integrity_check").fetchall():
            for line in _text(text).splitlines():
                if line != "ok" and not line.startswith("***") and "never used" not in line:
                    yield line
    except sqlite3.DatabaseError as error:
        yield str(error)


class _Problems:
    """The first problems of each kind, and the number of the others."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, kind: str, text: str) -> None:
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        if number <= _LISTED:
            self._texts.append(text)

    def __iter__(self) -> Iterator[str]:
        yield from self._texts
        for number in self._numbers.values():
            if number > _LISTED:
                yield f"{number - _LISTED} more"


def _rows(connection: sqlite3.Connection, query: str, problems: _Problems) -> Iterator[Sequence[object]]:
    """The readable rows of a table by rowid: from the start up to a damaged page, and from the end back to one."""
    last: int | None = None
    for direction in ("ASC", "DESC"):
        try:
            for row in connection.execute(f"{query} ORDER BY 1 {direction}"):
                if direction == "DESC" and last is not None and row[0] <= last:
                    return
                if direction == "ASC":
                    last = row[0]
                yield row
            return
        except sqlite3.DatabaseError as error:
            if direction == "ASC":
                problems.add("", f"a page cannot be read: {error}")


def _log(connection: sqlite3.Connection, problems: _Problems) -> Iterator[tuple[int, LogRow | None]]:
    """The revisions of the log, with the change if it is complete."""
    query = "SELECT revision, time, deleted, resource, namespace, name, value FROM log"
    for revision, time, deleted, *columns, value in _rows(connection, query, problems):
        found = _object((*columns, revision, value), problems)
        number = int(str(revision))  # an integer: the column is the key of the table
        if found is None or not isinstance(time, float) or deleted not in (0, 1):
            yield number, None
        else:
            yield number, LogRow(number, time, int(bool(deleted)), *found[:3], found.value)


def _object(row: Sequence[object], problems: _Problems) -> StoredObject | None:
    """The object of a row, if it is complete."""
    try:
        resource, namespace, name, revision, value = row
        found = StoredObject(_text(resource), _text(namespace), _text(name), int(str(revision)), _bytes(value))
    except (TypeError, ValueError) as error:
        problems.add("columns", f"a row has invalid columns: {error}")
        return None
    try:
        metadata = _decode(found.value)["metadata"]
        stated = (metadata.get("namespace") or "", metadata["name"], metadata["resourceVersion"])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        problems.add("objects", f"{found} at revision {found.revision} is not an object")
        return None
    if stated != (found.namespace, found.name, str(found.revision)):
        problems.add("objects", f"{found} at revision {found.revision} contains another object, {stated}")
        return None
    return found


def _compacted(connection: sqlite3.Connection, problems: _Problems) -> int:
    try:
        (revision,) = connection.execute("SELECT revision FROM compacted").fetchone()
        return int(revision)
    except (sqlite3.DatabaseError, TypeError, ValueError):
        problems.add("", "the revision at the start of the log cannot be read")
        return 0


def _text(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"expected a text, found {type(value).__name__}")
    return value.decode()


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return value
