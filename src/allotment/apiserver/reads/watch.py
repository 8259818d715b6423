"""Watches: streams of changes, with each event encoded once for all watches.

A watch first sends the initial objects or the changes after a revision, then new changes. A bounded buffer decouples it
from the store: a client that reads too slowly is disconnected, as in kube-apiserver, and resumes at its last revision.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from allotment.apiserver import api_errors
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.reads import protobuf
from allotment.apiserver.reads.representation import JSON, PROTOBUF, Form, encode, metadata_only, object_json, table
from allotment.apiserver.reads.selectors import ObjectSelection
from allotment.apiserver.request_options import ListOptions
from allotment.apiserver.served_kinds import api_version
from allotment.apiserver.storage.store import Change, Compacted, Entry, Store
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

#: Maximum number of changes in a buffer, and approximate size of a chunk in bytes.
_BUFFER: Final = 20_000
_CHUNK_BYTES: Final = 256 * 1024
#: Seconds between bookmarks, and minimum duration of a watch without timeoutSeconds.
_BOOKMARK_INTERVAL: Final = 60.0
_MIN_TIMEOUT: Final = 1800
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}


EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(NamedTuple):
    """A watch event: its type, and the object at its revision."""

    type: EventType
    entry: Entry
    #: The change behind the event, if its encoding can be shared with other watches.
    change: Change | None = None


class Watch:
    """A watch of a resource. Iterate :meth:`batches`, then call :meth:`close`.

    ``early``: deliver changes before they are durable, for clients that live in the store's process. ``convert``: has
    objects converted to the version in which the selection reads their fields.
    """

    def __init__(
        self, store: Store, bucket: str, namespace: str | None, options: ListOptions, selection: ObjectSelection, *,
        early: bool = False, convert: Callable[[Iterable[Tree]], Awaitable[None]] | None = None,
    ) -> None:  # fmt: skip
        self._convert = convert if selection.fields else None
        self._store = store
        self._early = early
        self._namespace = namespace
        self._selection = selection
        self._options = options
        self._buffer: list[Change] = []
        self._waiter: asyncio.Future[None] | None = None
        self._lagging = False
        self._initial: list[WatchEvent] = []
        self._catching_up: Iterator[Change] = iter(())
        #: All changes up to this revision have been delivered.
        self._delivered = 0
        # Subscribe before reading, so that no change is missed.
        self._unsubscribe = store.subscribe(bucket, self._enqueue, early=early)
        try:
            self._start(bucket)
        except BaseException:
            self._unsubscribe()
            raise

    def _start(self, bucket: str) -> None:
        store, options = self._store, self._options
        revision = options.revision or 0
        if revision and not options.initial:
            self._delivered = revision
            if revision < store.revision:
                try:
                    self._catching_up = iter(store.changes(bucket, revision, early=self._early))
                except Compacted as error:
                    message = f"too old resource version: {error.requested} ({error.oldest})"
                    raise api_errors.expired(message) from None
            return
        self._delivered = store.revision
        if options.initial is not False:
            matches = self._selection.matches
            entries = store.list(bucket, self._namespace)
            self._initial = [WatchEvent("ADDED", entry) for entry in entries if matches(entry.tree)]

    def _enqueue(self, change: Change) -> None:
        if self._namespace is not None and change.entry.namespace != self._namespace:
            return
        waiting = self._buffer
        # Only this watch would keep changes older than the history in memory, so the client is disconnected.
        if len(waiting) >= _BUFFER or (waiting and waiting[0].entry.revision <= self._store.oldest):
            self._lagging = True
            self._unsubscribe()
        else:
            self._buffer.append(change)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Unsubscribe from the store."""
        self._unsubscribe()

    async def batches(self) -> AsyncGenerator[list[WatchEvent], None]:
        """Yield available events; ends at the timeout or when the client is too slow."""
        options = self._options
        loop = asyncio.get_running_loop()
        seconds = options.timeout or _MIN_TIMEOUT + random.uniform(0, _MIN_TIMEOUT)
        end = loop.time() + seconds
        bookmarks = _BOOKMARK_INTERVAL if options.bookmarks else seconds + 1
        if self._delivered <= self._store.revision:
            await self._durable(self._delivered)
        if self._initial:
            yield self._initial
        self._initial = []
        if options.initial and options.bookmarks:
            yield [WatchEvent("BOOKMARK", _bookmark_entry(self._delivered, _INITIAL_EVENTS_END))]
        while True:
            changes = list(self._catching_up) or self._buffer
            if changes is self._buffer:
                self._buffer = []
            self._catching_up = iter(())
            await self._prepare(changes)
            if events := self._events(changes):
                yield events
                continue
            if self._buffer:
                continue
            if self._lagging:
                return
            left = end - loop.time()
            if left <= 0:
                return
            if not await self._wait_for_change(min(left, bookmarks)) and options.bookmarks and loop.time() < end:
                yield await self._bookmark()

    async def _prepare(self, changes: Sequence[Change]) -> None:
        """Have the objects of changes converted, if the selection needs it."""
        if self._convert is not None and changes:
            entries = (entry for change in changes for entry in (change.entry, change.previous) if entry is not None)
            await self._convert([entry.tree for entry in entries])

    def _events(self, changes: list[Change]) -> list[WatchEvent]:
        delivered, selection = self._delivered, self._selection
        namespace = self._namespace
        events: list[WatchEvent] = []
        for change in changes:
            if change.entry.revision <= delivered:
                continue
            delivered = change.entry.revision
            if namespace is not None and change.entry.namespace != namespace:
                continue
            if selection.matches_all:
                events.append(WatchEvent(change.type, change.entry, change))
            else:
                event = _filtered(change, selection)
                if event is not None:
                    events.append(event)
        self._delivered = delivered
        return events

    async def _wait_for_change(self, seconds: float) -> bool:
        """Wait for changes; False on timeout."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        return bool(self._buffer) or self._lagging

    async def _durable(self, revision: int) -> None:
        if not self._early:
            await self._store.durable(revision)

    async def _bookmark(self) -> list[WatchEvent]:
        """Remaining events and a bookmark at the current revision."""
        revision = self._store.revision
        await self._durable(revision)
        changes, self._buffer = self._buffer, []
        await self._prepare(changes)
        events = self._events(changes)
        self._delivered = max(self._delivered, revision)
        return [*events, WatchEvent("BOOKMARK", _bookmark_entry(self._delivered, None))]


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _bookmark_entry(revision: int, annotations: Tree | None) -> Entry:
    meta: Tree = {"resourceVersion": str(revision)}
    if annotations:
        meta["annotations"] = annotations
    return Entry("", "", revision, {"metadata": meta}, b"")


def _filtered(change: Change, selection: ObjectSelection) -> WatchEvent | None:
    """The event for a change under a selector: ADDED or DELETED if the object starts or stops matching."""
    previous = change.previous
    before = previous is not None and selection.matches(previous.tree)
    now = change.type != "DELETED" and selection.matches(change.entry.tree)
    if now:
        return WatchEvent("MODIFIED" if before else "ADDED", change.entry, change)
    if not before:
        return None
    if change.type == "DELETED":
        return WatchEvent("DELETED", change.entry, change)
    assert previous is not None
    meta = {**previous.tree["metadata"], "resourceVersion": str(change.entry.revision)}
    tree = {**previous.tree, "metadata": meta}
    return WatchEvent("DELETED", Entry(previous.namespace, previous.name, change.entry.revision, tree, encode(tree)))


# --- lines -----------------------------------------------------------------------------------------------------------


class EventEncoder:
    """Encodes events as JSON lines or protobuf frames, with a cache shared by all watches."""

    def __init__(self, size: int = 512) -> None:
        self._lines: dict[tuple[int, str, str, str], bytes] = {}
        self._size = size

    def encode_event(self, kind: ServedKind, version: str, event: WatchEvent, media: str = JSON) -> bytes:
        """The encoded event with the whole object."""
        if event.change is None:
            return _line(kind, version, event, media)
        key = (event.entry.revision, event.type, f"{kind.bucket}/{version}", media)
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) >= self._size:
                for old in list(self._lines)[: self._size // 2]:
                    del self._lines[old]
            line = self._lines[key] = _line(kind, version, event, media)
        return line


def _line(kind: ServedKind, version: str, event: WatchEvent, media: str) -> bytes:
    if media == PROTOBUF:
        return protobuf.event_frame(event.type, kind, version, event.entry)
    if event.type == "BOOKMARK":
        body = encode({"kind": kind.kind, "apiVersion": api_version(kind, version), **event.entry.tree})
    else:
        body = object_json(kind, version, event.entry)
    return b"".join((b'{"type":"', event.type.encode(), b'","object":', body, b"}\n"))


async def chunks(
    watch: Watch, kind: ServedKind, version: str, form: Form, lines: EventEncoder, now: Callable[[], str], store: Store,
    convert: Callable[[Iterable[Tree]], Awaitable[None]] | None = None,
) -> AsyncGenerator[bytes, None]:  # fmt: skip
    """The response body of a watch, in chunks of one or more events.

    ``convert``: has the objects of events converted to the version; an error ends the watch.
    """
    with_columns = True
    batches = watch.batches()
    try:
        async for batch in batches:
            chunk: list[bytes] = []
            size = 0
            if convert is not None and kind.convert is not None:
                try:
                    await convert([event.entry.tree for event in batch if event.type != "BOOKMARK"])
                except StatusError as error:
                    async for line in error_stream(error.status, form):
                        yield line
                    return
            for event in batch:
                if form.shown == "whole":
                    line = lines.encode_event(kind, version, event, form.media)
                else:
                    line = _encoded_form(kind, version, event, form, now(), store, with_columns)
                    with_columns = False
                chunk.append(line)
                size += len(line)
                if size >= _CHUNK_BYTES:
                    yield b"".join(chunk)
                    chunk, size = [], 0
            if chunk:
                yield b"".join(chunk)
    except StatusError as error:  # a webhook that does not convert what the selection reads
        async for line in error_stream(error.status, form):
            yield line
    finally:
        watch.close()
        await batches.aclose()


def _encoded_form(
    kind: ServedKind, version: str, event: WatchEvent, form: Form, now: str, store: Store, with_columns: bool
) -> bytes:
    entry = event.entry
    if form.media == PROTOBUF:
        return protobuf.metadata_frame(event.type, entry.tree, form.version)
    if form.shown == "metadata":
        metadata = metadata_only(entry.tree, form.version)
    else:
        meta = {"resourceVersion": entry.tree["metadata"].get("resourceVersion", "")}
        rows = () if event.type == "BOOKMARK" else (entry,)
        metadata = table(kind, version, rows, meta, form, now, store, with_columns=with_columns)
        if event.type == "BOOKMARK":
            metadata["metadata"] = entry.tree["metadata"]
    return encode({"type": event.type, "object": metadata}) + b"\n"


async def error_stream(status: Tree, form: Form) -> AsyncGenerator[bytes, None]:
    """The response body of a failed watch: one ERROR event."""
    if form.media == PROTOBUF:
        yield protobuf.error_frame(status)
        return
    yield encode({"type": "ERROR", "object": status}) + b"\n"


def event_tree(kind: ServedKind, version: str, event: WatchEvent) -> Tree:
    """The object of an event in a version."""
    if event.type == "BOOKMARK":
        return {"kind": kind.kind, "apiVersion": api_version(kind, version), **event.entry.tree}
    return in_version(kind, version, event.entry.tree)
