"""The SQLite file: an append-only log of changes, and the objects as of the start of the log.

A write appends one row to ``log``. ``objects`` changes only when the log is truncated: the removed rows are merged into
it in the same transaction. So each object is stored once, and the log can derive the state before each change. One
statement writes a whole batch, because SQLite releases the GIL once per statement, and reacquiring it may have to wait
for the event loop.

Durability: WAL with synchronous=FULL, one fsync per batch. SQLite's exclusive locking mode excludes other processes;
the operating system releases the lock when the process ends.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.storage.wal_file import DAMAGE, content_of, transactions_after
from allotment.files import atomic_write, private
from allotment.files.atomic_write import Sync
from allotment.shell_words import shell_line

#: The identity and the version of the format, which SQLite stores in the file.
APPLICATION: Final = 0x616C6C74  # "allt"
SCHEMA: Final = 1
#: The revision of an empty store; the first write gets the next one.
FIRST_REVISION: Final = 1

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
INSERT INTO compacted VALUES ({FIRST_REVISION});
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {SCHEMA};
COMMIT;
"""

#: Suffixes of SQLite's additional files, which a killed process leaves behind; the last is only an index of the first.
SUFFIXES: Final = ("-wal", "-journal", "-shm")
#: The bytes of a file on which SQLite holds its locks (SHARED_FIRST and SHARED_SIZE).
_LOCKED_START: Final = 0x40000002
_LOCKED_BYTES: Final = 510

#: The number of pages after which SQLite copies its WAL to the database.
CHECKPOINT_PAGES = 4000
#: Prepared statement sizes in rows; a shorter batch is padded with NULL rows, which are not inserted.
_SIZES = (1, 8, 64, 512)
_COLUMNS = 7


def _append(size: int) -> str:
    row = f"({', '.join('?' * _COLUMNS)})"
    return f"INSERT INTO log SELECT * FROM (VALUES {', '.join([row] * size)}) WHERE column1 IS NOT NULL"


_APPEND = {size: _append(size) for size in _SIZES}

# Rows are merged in order of revision, so the newest state of an object remains.
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
#: Maximum number of revisions merged in one transaction, during which new writes wait.
_FOLD_LIMIT = 2000


class LogRow(NamedTuple):
    """A row of the log: one change."""

    revision: int
    time: float
    deleted: int
    resource: str
    namespace: str
    name: str
    value: bytes


class DatabaseInUse(OSError):
    """Another process has the file open; ``pid`` is None if unknown."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path} is in use by {f'process {pid}' if pid else 'another process'}")
        self.path = path
        self.pid = pid


class UnsupportedDatabase(OSError):
    """The file is not an Allotment store, or has an unsupported format version."""


class DamagedDatabase(OSError):
    """The content of the file is damaged. ``advice``: what to do."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(f"{path} is damaged: {found}")
        self.path = path
        command = shell_line(["allot", "lab", "check", "--repair", "--data-dir", str(path.parent)])
        self.advice = f"restore the folder from a backup, or keep what is readable: {command}"


class DatabaseFile:
    """An open database file. Use it from one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._owner = _owner_file(path)
        self._wal = path.with_name(f"{path.name}-wal")
        private.make_folder(path.parent)
        # Objects include Secrets. SQLite creates its additional files with the mode of the database.
        private.create_file(path)
        for suffix in SUFFIXES:
            private.restrict(path.with_name(path.name + suffix))
        try:
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise OSError(f"cannot open {path}: {error}") from error
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise DatabaseInUse(path, _owner_pid(path)) from None
            if _is_damage(error):
                raise DamagedDatabase(path, str(error)) from error
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
                raise UnsupportedDatabase(f"{path} is not an Allotment store, or it is damaged: {error}") from error
            raise OSError(f"cannot open {path}: {error}") from error
        except BaseException:
            self._connection.close()
            raise
        atomic_write.replace(self._owner, f"{os.getpid()}\n".encode(), sync=Sync.NONE)

    def _prepare(self) -> None:
        run = self._connection.execute
        wal = content_of(self._wal)
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the disk there
        run(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        run("BEGIN IMMEDIATE")  # the lock is taken by the first access, and kept
        run("COMMIT")
        if wal:
            self._check_wal(wal)
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        if not tables:
            self._connection.executescript(_CREATE)
        elif application != APPLICATION:
            raise UnsupportedDatabase(f"{self.path} is another program's database")
        elif version != SCHEMA:
            raise UnsupportedDatabase(
                f"{self.path} has format {version}; this version of Allotment reads format {SCHEMA}"
            )

    def _check_wal(self, content: bytes) -> None:
        """Raise DamagedDatabase if SQLite has skipped complete transactions of the last process, without an error.

        The WAL gets its content back, because SQLite removes it when the file is closed.
        """
        (_, frames, _) = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        skipped = transactions_after(content, frames)
        if skipped:
            self._connection.close()
            atomic_write.replace(self._wal, content)
            raise DamagedDatabase(self.path, DAMAGE.format(skipped))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert errors while the content is read. Raises DamagedDatabase, and other OSErrors."""
        try:
            yield
        except sqlite3.Error as error:
            if _is_damage(error):
                raise DamagedDatabase(self.path, str(error)) from error
            raise OSError(f"cannot read {self.path}: {error}") from error
        except (msgspec.DecodeError, TypeError) as error:  # not JSON; a column of another type
            raise DamagedDatabase(self.path, str(error)) from error

    def compacted(self) -> int:
        """The revision of ``objects``, after which the log begins."""
        (revision,) = self._connection.execute("SELECT revision FROM compacted").fetchone()
        return int(revision)

    def objects(self) -> Iterator[tuple[str, str, str, int, bytes]]:
        """The objects at the start of the log: resource, namespace, name, revision, JSON; unordered."""
        return iter(self._connection.execute("SELECT resource, namespace, name, revision, value FROM objects"))

    def log(self) -> Iterator[LogRow]:
        """The changes in the log, oldest first."""
        return map(LogRow._make, self._connection.execute("SELECT * FROM log ORDER BY revision"))

    def last(self) -> int:
        """The last revision in the log; 0 if it is empty."""
        (revision,) = self._connection.execute("SELECT max(revision) FROM log").fetchone()
        return int(revision or 0)

    def last_before(self, time: float) -> int:
        """The last revision in the log before a time; 0 if there is none."""
        (revision,) = self._connection.execute("SELECT max(revision) FROM log WHERE time < ?", (time,)).fetchone()
        return int(revision or 0)

    def append(self, rows: Sequence[LogRow]) -> None:
        """Append rows in one transaction; they are on disk when this returns."""
        run, largest = self._connection.execute, _SIZES[-1]
        try:
            if len(rows) <= largest:  # one statement is a transaction of its own
                run(*_statement(rows))
                return
            run("BEGIN IMMEDIATE")
            for start in range(0, len(rows), largest):
                run(*_statement(rows[start : start + largest]))
            run("COMMIT")
        except sqlite3.Error as error:
            raise self._write_error(error) from error

    def fold(self, revision: int) -> bool:
        """Merge the log into ``objects`` up to a revision, at largest one step; returns whether more remains."""
        run = self._connection.execute
        try:
            step = min(revision, self.compacted() + _FOLD_LIMIT)
            run("BEGIN IMMEDIATE")
            for statement in _FOLD:
                run(statement, (step,))
            run("COMMIT")
        except sqlite3.Error as error:
            raise self._write_error(error) from error
        return step < revision

    def fill(self, objects: Sequence[tuple[object, ...]], revision: int) -> None:
        """Write the objects of an empty database: resource, namespace, name, revision, JSON; the log begins after
        ``revision``."""
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", objects)
            run("UPDATE compacted SET revision = ?", (revision,))
            run("COMMIT")
        except sqlite3.Error as error:
            raise self._write_error(error) from error

    def _write_error(self, error: sqlite3.Error) -> OSError:
        with suppress(sqlite3.Error):
            self._connection.rollback()
        if _is_damage(error):
            return DamagedDatabase(self.path, str(error))
        return OSError(f"cannot write to {self.path}: {error}")

    def close(self) -> None:
        """Close the file; SQLite checkpoints the rest of its WAL."""
        with closing(self._connection):
            self._owner.unlink(missing_ok=True)


def check_not_in_use(path: Path) -> None:
    """Raise DatabaseInUse if another process has a database open, OSError if it cannot be read.

    If this process has it open, its lock would be released: POSIX releases locks when any descriptor is closed.
    """
    if sys.platform == "win32":
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, _LOCKED_BYTES, _LOCKED_START)
    except (BlockingIOError, PermissionError):
        raise DatabaseInUse(path, _owner_pid(path)) from None
    finally:
        os.close(descriptor)


def _owner_file(path: Path) -> Path:
    return path.with_name(path.name + ".pid")


def _owner_pid(path: Path) -> int | None:
    try:
        return int(_owner_file(path).read_text())
    except (OSError, ValueError):
        return None


def _is_damage(error: sqlite3.Error) -> bool:
    # Without a code: a text that is not UTF-8. "No such table" and the like have the code of all other errors.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


def _statement(rows: Sequence[LogRow]) -> tuple[str, list[object]]:
    size = next(size for size in _SIZES if len(rows) <= size)
    values: list[object] = [value for row in rows for value in row]
    values.extend([None] * ((size - len(rows)) * _COLUMNS))
    return _APPEND[size], values
