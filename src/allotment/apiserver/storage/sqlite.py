"""The lab's store: all objects in memory, and optionally in a SQLite file.

Reads and writes access memory only. The writes of one event loop iteration form a batch; batches are written one at a
time, each in one transaction, so they grow with the latency of the disk (group commit). When a batch is on disk, its
waiters resume and subscribers are notified, in order of revision.

A disk error closes the store: changes that are not on disk must not become visible and cannot be undone, so all waiters
get the error and further writes are refused. A restart reads the state on disk.

The clock is used for the age of the history only, not for ordering.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby, islice, takewhile
from operator import attrgetter
from pathlib import Path

import msgspec

from allotment.apiserver.storage.buckets import Bucket, Key, in_namespace
from allotment.apiserver.storage.database_file import FIRST_REVISION, DatabaseFile, LogRow
from allotment.apiserver.storage.history import DEFAULT_WINDOW, History, Window
from allotment.apiserver.storage.store import Change, Compacted, Entry
from allotment.apiserver.storage.writer_thread import Writer
from allotment.model.trees import Tree

#: The revision of an empty store. For clients, 0 means "any".
FIRST = FIRST_REVISION
#: Maximum number of changes loaded into the history at start.
_MAX_LOADED_CHANGES = 10_000
#: Number of past states cached for clients that read a list in pages.
_SNAPSHOTS = 8

_WRITTEN = attrgetter("type", "resource", "entry")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Tree).decode

Callback = Callable[[Change], None]


class SqliteStore:
    """A :class:`~allotment.apiserver.storage.store.Store` in memory with an optional file."""

    def __init__(self, file: DatabaseFile | None, window: Window, clock: Callable[[], float]) -> None:
        self._file = file
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._subscribers: dict[str, dict[int, Callback]] = {}
        self._early: dict[str, dict[int, Callback]] = {}
        self._subscriptions = 0
        self._snapshots: OrderedDict[tuple[str, int], tuple[Entry, ...]] = OrderedDict()
        self._pending: list[Change] = []
        self._pending_waiters: list[asyncio.Future[None]] = []
        self._in_flight: list[Change] = []
        self._in_flight_waiters: list[asyncio.Future[None]] = []
        self._scheduled = False
        self._failure = ""
        #: Called once, when a disk error has closed the store.
        self.on_failure: Callable[[OSError], None] = _ignore_failure
        self._revision = FIRST
        self._history = History(window, FIRST)
        if file is not None:
            self._load(file)
        self._durable = self._revision
        self._writer = Writer(file) if file is not None else None

    @classmethod
    def open(
        cls, path: Path | None, *, history: Window = DEFAULT_WINDOW, clock: Callable[[], float] = time.time
    ) -> SqliteStore:
        """Open or create a file; without a path, objects are in memory only. Raises OSError with the reason."""
        if path is None:
            return cls(None, history, clock)
        file = DatabaseFile(path)
        try:
            with file.reading():
                return cls(file, history, clock)
        except BaseException:
            file.close()
            raise

    def _load(self, file: DatabaseFile) -> None:
        """Read the file: the objects at the start of the log, and the log, whose end becomes the history.

        A short history is enough: watches from before a restart were disconnected by it and reconnect soon. Object
        states that were overwritten before the history are not decoded.
        """
        now = self._clock()
        expired = file.last_before(now - self._history.window.age)
        while expired and file.fold(expired):
            pass
        log_start = file.compacted()
        last = max(log_start, file.last())
        history_start = max(log_start, last - _MAX_LOADED_CHANGES)
        raw: dict[tuple[str, str, str], tuple[int, bytes]] = {
            (resource, namespace, name): (revision, value)
            for resource, namespace, name, revision, value in file.objects()
        }
        log = file.log()
        for row in islice(log, history_start - log_start):
            if row.deleted:
                raw.pop(row[3:6], None)
            else:
                raw[row[3:6]] = (row.revision, row.value)
        states: dict[str, dict[Key, Entry]] = {}
        for (resource, namespace, name), (revision, value) in raw.items():
            entry = Entry(namespace, name, revision, _decode(value), value)
            states.setdefault(resource, {})[namespace, name] = entry
        self._history.forget(history_start)
        for time_written, rows in groupby(log, key=attrgetter("time")):
            for row in rows:
                self._history.add(_replay(states.setdefault(row.resource, {}), row))
                self._revision = row.revision
            self._history.mark(self._revision, time_written)
        self._revision = last
        self._buckets = {resource: Bucket(entries) for resource, entries in states.items()}

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The newest revision."""
        return self._revision

    @property
    def oldest(self) -> int:
        """The compacted revision: reads and watches can start at it or later."""
        return self._history.oldest

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The current object, or None."""
        bucket = self._buckets.get(resource)
        return None if bucket is None else bucket.get((namespace, name))

    def list(self, resource: str, namespace: str | None = None, *, at: int | None = None) -> Sequence[Entry]:
        """The objects by namespace and name, now or ``at`` a revision. Raises Compacted."""
        if at is None or at == self._revision:
            bucket = self._buckets.get(resource)
            return () if bucket is None else bucket.list(namespace)
        self._check_not_compacted(at)
        if at > self._revision:
            raise ValueError(f"revision {at} does not exist yet: the newest is {self._revision}")
        entries = self._snapshot(resource, at)
        return entries if namespace is None else in_namespace(entries, namespace)

    def changes(self, resource: str, after: int, *, early: bool = False) -> Iterable[Change]:
        """The durable changes of a resource (``early``: all) after a revision, oldest first. Raises Compacted."""
        self._check_not_compacted(after)
        changes = self._history.after(resource, after)
        durable = self._durable
        return changes if early else takewhile(lambda change: change.revision <= durable, changes)

    def subscribe(self, resource: str, callback: Callback, *, early: bool = False) -> Callable[[], None]:
        """Call ``callback`` for each durable change (``early``: for each change); returns a function to unsubscribe.

        Early callbacks must only record the change.
        """
        self._subscriptions += 1
        number = self._subscriptions
        subscribers = (self._early if early else self._subscribers).setdefault(resource, {})
        subscribers[number] = callback

        def stop() -> None:
            subscribers.pop(number, None)

        return stop

    def _check_not_compacted(self, revision: int) -> None:
        if revision < self._history.oldest:
            raise Compacted(revision, self._history.oldest)

    def _snapshot(self, resource: str, at: int) -> tuple[Entry, ...]:
        snapshots = self._snapshots
        entries = snapshots.get((resource, at))
        if entries is None:
            bucket = self._buckets.get(resource) or Bucket()
            entries = bucket.with_changes(self._history.states_at(resource, at))
            if len(snapshots) == _SNAPSHOTS:
                snapshots.popitem(last=False)
            snapshots[resource, at] = entries
        else:
            snapshots.move_to_end((resource, at))
        return entries

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, resource: str, namespace: str, name: str, tree: Tree) -> Entry:
        """Create or replace an object. Takes ownership of ``tree`` and sets its ``metadata.resourceVersion``."""
        entry = self._entry(namespace, name, tree)
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Bucket()
        previous = bucket.put((namespace, name), entry)
        self._record(Change("ADDED" if previous is None else "MODIFIED", resource, entry, previous))
        return entry

    def delete(self, resource: str, namespace: str, name: str, tree: Tree | None = None) -> Entry:
        """Delete an object; returns its last state (``tree``, if given) at the new revision. KeyError if absent."""
        bucket = self._buckets.get(resource)
        previous = None if bucket is None else bucket.get((namespace, name))
        if bucket is None or previous is None:
            raise KeyError(f"{resource} {namespace}/{name}")
        if tree is None:
            tree = previous.tree | {"metadata": dict(previous.tree["metadata"])}
        entry = self._entry(namespace, name, tree)
        bucket.remove((namespace, name))
        self._record(Change("DELETED", resource, entry, previous))
        return entry

    def _entry(self, namespace: str, name: str, tree: Tree) -> Entry:
        """The next state of an object. If it cannot be encoded, the store is unchanged."""
        if self._failure:
            raise OSError(self._failure)
        revision = self._revision + 1
        tree["metadata"]["resourceVersion"] = str(revision)
        return Entry(namespace, name, revision, tree, _encode(tree))

    def _record(self, change: Change) -> None:
        self._revision = change.entry.revision
        self._history.add(change)
        self._pending.append(change)
        if not self._scheduled:
            self._schedule()
        early = self._early.get(change.resource)
        if early:
            for callback in tuple(early.values()):
                _notify(callback, change)

    # --- durability --------------------------------------------------------------------------------------------------

    async def durable(self, revision: int | None = None) -> None:
        """Wait until a revision (default: the newest) is on disk. Raises OSError if that is impossible."""
        if revision is None:
            revision = self._revision
        if revision <= self._durable:
            return
        if self._file is None:
            self._start_batch()
            return
        if self._failure:
            raise OSError(self._failure)
        if not self._scheduled:
            self._schedule()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        in_flight = self._in_flight and revision <= self._in_flight[-1].revision
        (self._in_flight_waiters if in_flight else self._pending_waiters).append(waiter)
        await waiter

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop yet: the first waiter will run in one
            if self._file is None:
                self._start_batch()
            return
        self._scheduled = True
        if not self._in_flight:
            loop.call_soon(self._start_batch)

    def _start_batch(self) -> None:
        """Make a batch of the writes of this event loop iteration and pass it to the writer."""
        self._scheduled = False
        if not self._pending:  # in memory, a waiter has already done this
            return
        batch = self._in_flight = self._pending
        self._pending = []
        self._in_flight_waiters, self._pending_waiters = self._pending_waiters, []
        now = self._clock()
        self._history.mark(self._revision, now)
        if self._writer is None:
            self._batch_done(None)
            return
        rows = [
            LogRow(entry.revision, now, kind == "DELETED", resource, entry.namespace, entry.name, entry.json)
            for kind, resource, entry in map(_WRITTEN, batch)
        ]
        self._writer.write(rows, self._history.oldest, self._batch_done, asyncio.get_running_loop())

    def _batch_done(self, error: OSError | None) -> None:
        """Complete the batch in flight, successfully or not."""
        batch, self._in_flight = self._in_flight, []
        waiters, self._in_flight_waiters = self._in_flight_waiters, []
        if error is not None:
            self._failure = str(error)
            waiters += self._pending_waiters
            self._pending_waiters = []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(OSError(self._failure))
            self.on_failure(error)
            return
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._start_batch)
        self._durable = batch[-1].revision
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._notify(batch)
        overdue = self._history.overdue(self._clock())
        if overdue > self._history.oldest:
            self.compact(overdue)

    def _notify(self, batch: Sequence[Change]) -> None:
        """Notify the current subscribers; later ones get these changes from ``changes``."""
        resources = {change.resource for change in batch}
        callbacks = {resource: tuple(self._subscribers.get(resource, {}).items()) for resource in resources}
        for change in batch:
            for number, callback in callbacks[change.resource]:
                if number in self._subscribers[change.resource]:
                    _notify(callback, change)

    def compact(self, revision: int) -> None:
        """Drop the history up to a revision, but not changes that are not durable yet."""
        revision = min(revision, self._durable)
        if revision > self._history.oldest:
            self._history.forget(revision)
            for key in [key for key in self._snapshots if key[1] < revision]:
                del self._snapshots[key]

    async def close(self) -> None:
        """Make all changes durable and close the file. Raises OSError if that fails."""
        if self._file is None or self._writer is None:
            self._failure = self._failure or "the store is closed"
            return
        try:
            if not self._failure:
                await self.durable()
        finally:
            self._writer.close()
            self._writer = None
            self._file.close()
            self._failure = self._failure or f"{self._file.path} is closed"


def _replay(entries: dict[Key, Entry], row: LogRow) -> Change:
    """Apply a row of the log to the objects."""
    key = (row.namespace, row.name)
    entry = Entry(row.namespace, row.name, row.revision, _decode(row.value), row.value)
    if row.deleted:
        return Change("DELETED", row.resource, entry, entries.pop(key, None))
    previous = entries.get(key)
    entries[key] = entry
    return Change("ADDED" if previous is None else "MODIFIED", row.resource, entry, previous)


def _ignore_failure(error: OSError) -> None:
    """Do nothing: the next write raises the error."""


def _notify(callback: Callback, change: Change) -> None:
    try:
        callback(change)
    except Exception as error:  # noqa: BLE001 - a bug in one subscriber must not affect others
        _report(error)


def _report(error: Exception) -> None:
    context = {"message": "a subscriber of the store failed", "exception": error}
    with suppress(RuntimeError):  # no running loop to report to
        asyncio.get_running_loop().call_exception_handler(context)
