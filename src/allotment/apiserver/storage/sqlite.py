"""The store of the lab: everything in memory, and on disk if it has a file.

Reads and writes touch memory only. The writes of one turn of the event loop make a batch; a batch goes to the disk in
one transaction, one at a time, so batches grow by themselves as the disk gets slower (group commit). When a batch is
on disk its waiters are woken and the subscribers told, in the order of revisions.

A disk error is the end of the store: what is in memory and not on disk must never be seen outside, and cannot be taken
back, so every waiter gets the error and no write is accepted any more. The next start reads what the disk has.

The clock serves the age of the history only, never the order of anything.
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

from allotment.apiserver.storage.buckets import Bucket, Key, within
from allotment.apiserver.storage.database_file import Disk, Row
from allotment.apiserver.storage.history import USUAL, History, Window
from allotment.apiserver.storage.store import Change, Compacted, Entry
from allotment.apiserver.storage.writer_thread import Writer
from allotment.model.trees import Tree

#: The revision of an empty store; the first write makes the next one. 0 means "any" to clients.
FIRST = 1
#: Changes that a restart remembers, at most.
_REMEMBERED = 10_000
#: Past states that are kept ready, for clients that read a list page by page.
_SNAPSHOTS = 8

_WRITTEN = attrgetter("type", "resource", "entry")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Tree).decode

Tell = Callable[[Change], None]


class SqliteStore:
    """See the module, and :class:`~allotment.apiserver.storage.store.Store` for what each method promises."""

    def __init__(self, disk: Disk | None, window: Window, clock: Callable[[], float]) -> None:
        self._disk = disk
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self._subscribers: dict[str, dict[int, Tell]] = {}
        self._early: dict[str, dict[int, Tell]] = {}
        self._subscriptions = 0
        self._snapshots: OrderedDict[tuple[str, int], tuple[Entry, ...]] = OrderedDict()
        self._pending: list[Change] = []
        self._pending_waiters: list[asyncio.Future[None]] = []
        self._flight: list[Change] = []
        self._flight_waiters: list[asyncio.Future[None]] = []
        self._scheduled = False
        self._ended = ""
        #: Called once, when a disk error has ended the store.
        self.on_failure: Callable[[OSError], None] = _ignored
        self._revision = FIRST
        self._history = History(window, FIRST)
        if disk is not None:
            self._load(disk)
        self._durable = self._revision
        self._writer = Writer(disk) if disk is not None else None

    @classmethod
    def open(cls, path: Path | None, *, history: Window = USUAL, clock: Callable[[], float] = time.time) -> SqliteStore:
        """Open a file, made if absent; without one everything is in memory. Raises OSError that says what is wrong."""
        if path is None:
            return cls(None, history, clock)
        disk = Disk(path)
        try:
            return cls(disk, history, clock)
        except BaseException:
            disk.close()
            raise

    def _load(self, disk: Disk) -> None:
        """Read the file: the objects as they were some time ago, and what changed since, which is the history.

        Only the end of the log becomes history: whoever watched before a restart was cut off by it and is back soon.
        What was written over before that is never decoded.
        """
        now = self._clock()
        forgotten = disk.last_before(now - self._history.window.age)
        while forgotten and disk.fold(forgotten):
            pass
        begin = disk.compacted()
        last = max(begin, disk.last())
        remembered = max(begin, last - _REMEMBERED)
        raw: dict[tuple[str, str, str], tuple[int, bytes]] = {
            (resource, namespace, name): (revision, value)
            for resource, namespace, name, revision, value in disk.objects()
        }
        log = disk.log()
        for row in islice(log, remembered - begin):
            if row.deleted:
                raw.pop(row[3:6], None)
            else:
                raw[row[3:6]] = (row.revision, row.value)
        states: dict[str, dict[Key, Entry]] = {}
        for (resource, namespace, name), (revision, value) in raw.items():
            entry = Entry(namespace, name, revision, _decode(value), value)
            states.setdefault(resource, {})[namespace, name] = entry
        self._history.forget(remembered)
        for written, rows in groupby(log, key=attrgetter("time")):
            for row in rows:
                self._history.add(_replay(states.setdefault(row.resource, {}), row))
                self._revision = row.revision
            self._history.mark(self._revision, written)
        self._revision = last
        self._buckets = {resource: Bucket(entries) for resource, entries in states.items()}

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """The newest revision."""
        return self._revision

    @property
    def oldest(self) -> int:
        """The revision up to which the history is forgotten: reads and watches from it on are possible."""
        return self._history.oldest

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The newest state."""
        bucket = self._buckets.get(resource)
        return None if bucket is None else bucket.get((namespace, name))

    def list(self, resource: str, namespace: str | None = None, *, at: int | None = None) -> Sequence[Entry]:
        """All objects by namespace and name, now or as they were ``at`` a revision. Raises Compacted."""
        if at is None or at == self._revision:
            bucket = self._buckets.get(resource)
            return () if bucket is None else bucket.list(namespace)
        self._known(at)
        if at > self._revision:
            raise ValueError(f"revision {at} is not there yet: the newest is {self._revision}")
        entries = self._snapshot(resource, at)
        return entries if namespace is None else within(entries, namespace)

    def changes(self, resource: str, after: int, *, early: bool = False) -> Iterable[Change]:
        """The durable changes of a resource (early: all) after a revision, oldest first. Raises Compacted."""
        self._known(after)
        changes = self._history.after(resource, after)
        durable = self._durable
        return changes if early else takewhile(lambda change: change.revision <= durable, changes)

    def subscribe(self, resource: str, tell: Tell, *, early: bool = False) -> Callable[[], None]:
        """Be told of each change of a resource once it is durable (early: as it is made); returns how to stop.

        Who is told early must only take note.
        """
        self._subscriptions += 1
        number = self._subscriptions
        subscribers = (self._early if early else self._subscribers).setdefault(resource, {})
        subscribers[number] = tell

        def stop() -> None:
            subscribers.pop(number, None)

        return stop

    def _known(self, revision: int) -> None:
        if revision < self._history.oldest:
            raise Compacted(revision, self._history.oldest)

    def _snapshot(self, resource: str, at: int) -> tuple[Entry, ...]:
        snapshots = self._snapshots
        entries = snapshots.get((resource, at))
        if entries is None:
            bucket = self._buckets.get(resource) or Bucket()
            entries = bucket.changed(self._history.undone(resource, at))
            if len(snapshots) == _SNAPSHOTS:
                snapshots.popitem(last=False)
            snapshots[resource, at] = entries
        else:
            snapshots.move_to_end((resource, at))
        return entries

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, resource: str, namespace: str, name: str, tree: Tree) -> Entry:
        """Create or replace; ``metadata.resourceVersion`` is set (in the tree given, which the store now owns)."""
        entry = self._entry(namespace, name, tree)
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Bucket()
        previous = bucket.put((namespace, name), entry)
        self._record(Change("ADDED" if previous is None else "MODIFIED", resource, entry, previous))
        return entry

    def delete(self, resource: str, namespace: str, name: str, tree: Tree | None = None) -> Entry:
        """Remove; returns the last state (``tree``, where given, is it) under the new revision. KeyError if absent."""
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
        """The next state of an object. Nothing has changed yet: what cannot be encoded leaves the store as it was."""
        if self._ended:
            raise OSError(self._ended)
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
            for tell in tuple(early.values()):
                _tell(tell, change)

    # --- durability --------------------------------------------------------------------------------------------------

    async def durable(self, revision: int | None = None) -> None:
        """Wait until a revision (the newest, if none) is on disk. Raises OSError when it can never be."""
        if revision is None:
            revision = self._revision
        if revision <= self._durable:
            return
        if self._disk is None:
            self._hand_over()
            return
        if self._ended:
            raise OSError(self._ended)
        if not self._scheduled:
            self._schedule()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        in_flight = self._flight and revision <= self._flight[-1].revision
        (self._flight_waiters if in_flight else self._pending_waiters).append(waiter)
        await waiter

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop yet: whoever waits for the writes will bring one
            if self._disk is None:
                self._hand_over()
            return
        self._scheduled = True
        if not self._flight:
            loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        """End of a turn: what was written in it becomes a batch."""
        self._scheduled = False
        if not self._pending:  # in memory, whoever waited has handed over already
            return
        batch = self._flight = self._pending
        self._pending = []
        self._flight_waiters, self._pending_waiters = self._pending_waiters, []
        now = self._clock()
        self._history.mark(self._revision, now)
        if self._writer is None:
            self._landed(None)
            return
        rows = [
            Row(entry.revision, now, kind == "DELETED", resource, entry.namespace, entry.name, entry.json)
            for kind, resource, entry in map(_WRITTEN, batch)
        ]
        self._writer.write(rows, self._history.oldest, self._landed, asyncio.get_running_loop())

    def _landed(self, error: OSError | None) -> None:
        """The batch in flight is on disk, or never will be."""
        batch, self._flight = self._flight, []
        waiters, self._flight_waiters = self._flight_waiters, []
        if error is not None:
            self._ended = str(error)
            waiters += self._pending_waiters
            self._pending_waiters = []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(OSError(self._ended))
            self.on_failure(error)
            return
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._durable = batch[-1].revision
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._tell(batch)
        overdue = self._history.overdue(self._clock())
        if overdue > self._history.oldest:
            self.compact(overdue)

    def _tell(self, batch: Sequence[Change]) -> None:
        """Tell who was there when the batch landed: whoever comes later has these changes from ``changes``."""
        resources = {change.resource for change in batch}
        listening = {resource: tuple(self._subscribers.get(resource, {}).items()) for resource in resources}
        for change in batch:
            for number, tell in listening[change.resource]:
                if number in self._subscribers[change.resource]:
                    _tell(tell, change)

    def compact(self, revision: int) -> None:
        """Forget the history up to a revision (what is not durable yet stays)."""
        revision = min(revision, self._durable)
        if revision > self._history.oldest:
            self._history.forget(revision)
            for key in [key for key in self._snapshots if key[1] < revision]:
                del self._snapshots[key]

    async def close(self) -> None:
        """Make everything durable and let go of files. Raises OSError if that failed."""
        if self._disk is None or self._writer is None:
            self._ended = self._ended or "the store is closed"
            return
        try:
            if not self._ended:
                await self.durable()
        finally:
            self._writer.close()
            self._writer = None
            self._disk.close()
            self._ended = self._ended or f"{self._disk.path} is closed"


def _replay(entries: dict[Key, Entry], row: Row) -> Change:
    """Do to the state what a row of the log says."""
    key = (row.namespace, row.name)
    entry = Entry(row.namespace, row.name, row.revision, _decode(row.value), row.value)
    if row.deleted:
        return Change("DELETED", row.resource, entry, entries.pop(key, None))
    previous = entries.get(key)
    entries[key] = entry
    return Change("ADDED" if previous is None else "MODIFIED", row.resource, entry, previous)


def _ignored(error: OSError) -> None:
    """Whoever writes next will get the error."""


def _tell(tell: Tell, change: Change) -> None:
    try:
        tell(change)
    except Exception as error:  # noqa: BLE001 - one subscriber's defect must not cost another a change
        _report(error)


def _report(error: Exception) -> None:
    context = {"message": "a subscriber of the store failed", "exception": error}
    with suppress(RuntimeError):  # no loop, so nobody to report to
        asyncio.get_running_loop().call_exception_handler(context)
