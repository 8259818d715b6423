"""The file: an append-only log of changes, and the objects as they were when the log begins.

A write is one row of ``log``, appended; ``objects`` is only touched when the log is cut: then the rows that go are
folded into it, in the same transaction. So each object is written once and not twice, and the log always knows the
state before its first change. One statement writes a whole batch: SQLite lets go of the interpreter lock once per
statement, and each time the writer wants it back it may have to wait for the loop.

Durability: WAL with synchronous=FULL, one fsync per batch. SQLite's exclusive locking keeps a second process out, and
falls with the process that held it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

from allotment.files import atomic_write, private
from allotment.files.atomic_write import Sync

_APPLICATION = 0x616C6C74  # "allt"
_SCHEMA = 1

_CREATE = f"""
BEGIN;
CREATE TABLE objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL,
    value BLOB NOT NULL, UNIQUE (resource, namespace, name)
);
CREATE TABLE log (
    revision INTEGER PRIMARY KEY, time REAL NOT NULL, deleted INTEGER NOT NULL,
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL
);
CREATE TABLE compacted (revision INTEGER NOT NULL);
INSERT INTO compacted VALUES (1);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_SCHEMA};
COMMIT;
"""

#: Of the files that SQLite has beside a database; a process that was killed leaves them.
_ENDINGS: Final = ("-wal", "-shm", "-journal")

#: Statements are prepared for these numbers of rows; the last rows of a shorter batch are NULL and left out.
_SIZES = (1, 8, 64, 512)
_COLUMNS = 7


def _append(size: int) -> str:
    row = f"({', '.join('?' * _COLUMNS)})"
    return f"INSERT INTO log SELECT * FROM (VALUES {', '.join([row] * size)}) WHERE column1 IS NOT NULL"


_APPEND = {size: _append(size) for size in _SIZES}

# Rows are folded in the order of revisions, so the newest of an object stays.
_FOLD = (
    """INSERT INTO objects (resource, namespace, name, revision, value)
    SELECT resource, namespace, name, revision, value FROM log WHERE revision <= ? AND NOT deleted ORDER BY revision
    ON CONFLICT DO UPDATE SET revision = excluded.revision, value = excluded.value""",
    """DELETE FROM objects WHERE rowid IN (
        SELECT objects.rowid FROM log CROSS JOIN objects USING (resource, namespace, name)
        WHERE log.revision <= ? AND log.deleted AND log.revision > objects.revision)""",
    "DELETE FROM log WHERE revision <= ?",
    "UPDATE compacted SET revision = ?",
)
#: So many revisions are folded in one transaction; new writes wait that long at most.
_FOLD_STEP = 2000


class Row(NamedTuple):
    """A change as the log holds it."""

    revision: int
    time: float
    deleted: int
    resource: str
    namespace: str
    name: str
    value: bytes


class InUse(OSError):
    """Another process has the file open: ``pid``, where it is known."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path} is in use by {f'process {pid}' if pid else 'another process'}")
        self.path = path
        self.pid = pid


class Unusable(OSError):
    """The file is not a store, or not one of this version."""


class Disk:
    """An open file. Used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = path.with_name(path.name + ".pid")
        private.make_folder(path.parent)
        # The objects have Secrets among them. SQLite gives the files beside the database the mode of the database.
        private.create_file(path)
        for ending in _ENDINGS:
            private.restrict(path.with_name(path.name + ending))
        try:
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise OSError(f"cannot open {path}: {error}") from error
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise InUse(path, self._other()) from None
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise Unusable(f"{path} is not a store of Allotment, or it is damaged: {error}") from error
            raise OSError(f"cannot open {path}: {error}") from error
        except BaseException:
            self._connection.close()
            raise
        atomic_write.replace(self._owner, f"{os.getpid()}\n".encode(), sync=Sync.NONE)

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the disk there
        run("PRAGMA wal_autocheckpoint = 4000")
        run("BEGIN IMMEDIATE")  # the lock is taken by the first access, and kept
        run("COMMIT")
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables:
            self._connection.executescript(_CREATE)
        elif application != _APPLICATION:
            raise Unusable(f"{self.path} is a database of another program")
        elif version != _SCHEMA:
            raise Unusable(f"{self.path} has format {version}; this version of Allotment reads format {_SCHEMA}")

    def _other(self) -> int | None:
        try:
            return int(self._owner.read_text())
        except (OSError, ValueError):
            return None

    def compacted(self) -> int:
        """The revision of ``objects``: the log begins after it."""
        (revision,) = self._connection.execute("SELECT revision FROM compacted").fetchone()
        return int(revision)

    def objects(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        """The state when the log begins: resource, namespace, name, revision, JSON; in no order."""
        return iter(self._connection.execute("SELECT resource, namespace, name, revision, value FROM objects"))

    def log(self) -> Iterator[Row]:
        """The changes since, oldest first."""
        return map(Row._make, self._connection.execute("SELECT * FROM log ORDER BY revision"))

    def last(self) -> int:
        """The last revision; 0 if the log is empty."""
        (revision,) = self._connection.execute("SELECT max(revision) FROM log").fetchone()
        return int(revision or 0)

    def last_before(self, time: float) -> int:
        """The last revision older than a time; 0 if the log has none."""
        (revision,) = self._connection.execute("SELECT max(revision) FROM log WHERE time < ?", (time,)).fetchone()
        return int(revision or 0)

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows in one transaction; they are on disk when this returns."""
        run, most = self._connection.execute, _SIZES[-1]
        try:
            if len(rows) <= most:  # one statement is a transaction of its own
                run(*_statement(rows))
                return
            run("BEGIN IMMEDIATE")
            for start in range(0, len(rows), most):
                run(*_statement(rows[start : start + most]))
            run("COMMIT")
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def fold(self, revision: int) -> bool:
        """Cut the log, up to a revision or a part of the way; tells whether there is more to cut."""
        run = self._connection.execute
        try:
            step = min(revision, self.compacted() + _FOLD_STEP)
            run("BEGIN IMMEDIATE")
            for statement in _FOLD:
                run(statement, (step,))
            run("COMMIT")
        except sqlite3.Error as error:
            raise self._refused(error) from error
        return step < revision

    def _refused(self, error: sqlite3.Error) -> OSError:
        with suppress(sqlite3.Error):
            self._connection.rollback()
        return OSError(f"cannot write to {self.path}: {error}")

    def close(self) -> None:
        """Let go of the file; SQLite moves the rest of its WAL into it."""
        with closing(self._connection):
            self._owner.unlink(missing_ok=True)


def _statement(rows: Sequence[Row]) -> tuple[str, list[object]]:
    size = next(size for size in _SIZES if len(rows) <= size)
    values: list[object] = [value for row in rows for value in row]
    values.extend([None] * ((size - len(rows)) * _COLUMNS))
    return _APPEND[size], values
