"""Event recorder: repeated events are counted, and recording never blocks work.

A recorder puts a note into a bounded queue. One writer empties it while the process is idle, and in part at least every
second. Equal notes become one Event with a count; more than ten notes in ten minutes that differ only in their message
become one combined Event; and notes about one object are rate-limited. The three rules are those of client-go's event
correlator.

Events wait while the cluster is unreachable. Rejected ones are retried a few times if the rejection may be temporary
(a server that has just started does not know its permissions yet).

Events with an ``action`` (the scheduler's) are written as events.k8s.io/v1 with a ``series``; all others as v1 with a
``count``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from datetime import datetime
from random import Random
from typing import Final, Literal, NamedTuple, TypeVar

from allotment.cluster.backoff import Backoff
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock, stamp, stamp_micro
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import EVENTS, NEW_EVENTS
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_MAX_NOTES: Final = 50_000
_MAX_ENTRIES: Final = 4_096
_SIMILAR: Final = 10  # differing messages of one reason before they are combined
_SIMILAR_SECONDS: Final = 600.0
_BURST: Final = 25.0  # notes about one object from one component in a burst …
_REFILL: Final = 1 / 300  # … and how many more a second
#: The prefix of the message of a combined event.
COMBINED: Final = "(combined from similar events): "
_NAMESPACE_OF_CLUSTER_OBJECTS: Final = "default"
#: The API server's limits in bytes: for names, and for note and reporting instance of events with an action.
_LONGEST_NAME: Final = 253
_LONGEST_NOTE: Final = 1024
_LONGEST_INSTANCE: Final = 128
_CONCURRENCY: Final = 16
#: Rejections after which an event is dropped.
_REFUSALS: Final = 5

EventType = Literal["Normal", "Warning"]

_Value = TypeVar("_Value")


class InvolvedObject(NamedTuple):
    """The object of an event."""

    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    revision: str
    field: str = ""


class _Note(NamedTuple):
    component: str
    involved: InvolvedObject
    type: EventType
    reason: str
    message: str
    action: str
    moment: datetime
    annotations: Mapping[str, str]


class _Series:
    """An Event in the cluster and its repetitions."""

    __slots__ = ("count", "first", "last", "name", "namespace", "note", "refused", "stored")

    def __init__(self, note: _Note, number: int) -> None:
        self.note = note
        self.namespace = note.involved.namespace or _NAMESPACE_OF_CLUSTER_OBJECTS
        moment = f".{int(note.moment.timestamp() * 1e9) + number:x}"
        self.name = note.involved.name[: _LONGEST_NAME - len(moment)].rstrip("-.") + moment
        self.first = self.last = note.moment
        self.count = 0
        self.stored = False
        self.refused = 0


class Events:
    """The events of a process: a queue of notes and its writer."""

    def __init__(self, client: Client, *, clock: Clock, instance: str = "") -> None:
        self._client = client
        self._clock = clock
        self._instance = instance
        self._notes: deque[_Note] = deque(maxlen=_MAX_NOTES)
        self._arrived = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()
        self._series: OrderedDict[tuple[object, ...], _Series] = OrderedDict()
        self._similar: OrderedDict[tuple[object, ...], tuple[datetime, set[str]]] = OrderedDict()
        self._tokens: OrderedDict[tuple[object, ...], tuple[float, float]] = OrderedDict()
        self._number = 0
        self._pending: list[_Series] = []
        """Events that could not be written yet."""
        self._backoff = Backoff(Random(), first=0.5, longest=10.0)

    def note(
        self, component: str, about: Tree, type: EventType, reason: str, message: str, action: str = "",
        annotations: Mapping[str, str] = {},
    ) -> None:  # fmt: skip
        """Put a note into the queue; if it is full, the oldest note is dropped.

        ``about``: an object, or an object reference with an optional ``fieldPath``. ``annotations`` are those of the
        Event, as with client-go's ``AnnotatedEventf``.
        """
        metadata = about["metadata"]
        involved = InvolvedObject(
            about.get("kind", ""), metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""),
            about.get("apiVersion", ""), metadata.get("resourceVersion", ""), about.get("fieldPath", ""),
        )  # fmt: skip
        self._notes.append(_Note(component, involved, type, reason, message, action, self._clock.moment(), annotations))
        self._arrived.set()
        self._written.clear()

    async def flush(self) -> None:
        """Wait until all notes are written or dropped."""
        await self._written.wait()

    def recorder(self, component: str) -> Recorder:
        """The recorder of a component: ``default-scheduler``, ``resource_claim`` …"""
        return Recorder(self, component)

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            if not self._notes and not self._pending:
                self._written.set()
                self._arrived.clear()
                await self._arrived.wait()
            await _idle()
            changed = {id(series): series for series in self._pending}
            while self._notes and len(changed) < _CONCURRENCY:
                series = self._correlated(self._notes.popleft())
                if series is not None:
                    changed[id(series)] = series
            self._pending = list(changed.values())
            dealt_with = await asyncio.gather(*(self._write(series) for series in self._pending))
            self._pending = [series for series, done in zip(self._pending, dealt_with, strict=True) if not done]
            if self._pending:
                await self._clock.sleep(self._backoff.next())
            else:
                self._backoff.reset()

    def _correlated(self, note: _Note) -> _Series | None:
        involved = note.involved
        about = (note.component, involved.kind, involved.namespace, involved.name, involved.uid)
        if not self._allowed(about, note.moment):
            return None
        similar = (*about, note.type, note.reason, note.action)
        start, messages = self._similar.pop(similar, (note.moment, set[str]()))
        if (note.moment - start).total_seconds() > _SIMILAR_SECONDS:
            start, messages = note.moment, set()
        messages.add(note.message)
        _store(self._similar, similar, (start, messages))
        combined = len(messages) > _SIMILAR
        if combined:
            messages.discard(note.message)
            note = note._replace(message=COMBINED + note.message)
        same = (*similar, involved.field, "" if combined else note.message)
        series = self._series.pop(same, None)
        if series is None:
            self._number += 1
            series = _Series(note, self._number % 1000)
        _store(self._series, same, series)
        series.note = note
        series.count += 1
        series.last = note.moment
        return series

    def _allowed(self, about: tuple[object, ...], moment: datetime) -> bool:
        now = moment.timestamp()
        tokens, before = self._tokens.pop(about, (_BURST, now))
        tokens = min(tokens + max(now - before, 0) * _REFILL, _BURST)  # the wall clock may be set back
        allowed = tokens >= 1
        _store(self._tokens, about, (tokens - 1 if allowed else tokens, now))
        return allowed

    async def _write(self, series: _Series) -> bool:
        """Write a series; returns whether it is done, or dropped."""
        try:
            if series.stored:
                await self._count(series)
            if not series.stored:
                await self._create(series)
        except StatusError as error:
            series.refused += 1
            log.debug("event %s/%s: %s", series.namespace, series.name, error)
            if _is_permanent(error) or series.refused >= _REFUSALS:
                series.refused = 0
                return True
            return False
        except Unreachable as error:
            # An outage is logged once: it may be long.
            level = logging.DEBUG if self._backoff.failures else logging.INFO
            log.log(level, "event %s/%s: not written yet: %s", series.namespace, series.name, error)
            return False
        series.refused = 0
        return True

    async def _count(self, series: _Series) -> None:
        try:
            resource = NEW_EVENTS if series.note.action else EVENTS
            await self._client.patch(resource, series.name, _repeated(series), series.namespace)
        except StatusError as error:
            if error.code != 404:
                raise
            series.stored = False  # events expire

    async def _create(self, series: _Series) -> None:
        try:
            if series.note.action:
                await self._client.create(NEW_EVENTS, _new_form(series, self._instance), series.namespace)
            else:
                await self._client.create(EVENTS, _old_form(series), series.namespace)
        except StatusError as error:
            if error.code != 409:  # written, but the response was lost
                raise
        series.stored = True


def _is_permanent(error: StatusError) -> bool:
    """Whether a rejection is permanent; a terminating namespace accepts no new events."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    ends = any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return ends or (error.code < 500 and error.code not in (401, 403, 429))


class Recorder:
    """Records the events of one component."""

    __slots__ = ("_component", "_events")

    def __init__(self, events: Events, component: str) -> None:
        self._events = events
        self._component = component

    def event(
        self, about: Tree, type: EventType, reason: str, message: str, action: str = "",
        annotations: Mapping[str, str] = {},
    ) -> None:  # fmt: skip
        """Queue an event about an object; returns immediately."""
        self._events.note(self._component, about, type, reason, message, action, annotations)


async def _idle() -> None:
    """Wait until the event loop is idle, about a second at most."""
    loop = asyncio.get_running_loop()
    latest = loop.time() + 1.0
    while True:
        before = loop.time()
        await asyncio.sleep(0.002)
        after = loop.time()
        if after - before < 0.005 or after > latest:
            return
        await asyncio.sleep(0.05)


def _store(memory: OrderedDict[tuple[object, ...], _Value], key: tuple[object, ...], value: _Value) -> None:
    memory[key] = value
    if len(memory) > _MAX_ENTRIES:
        memory.popitem(last=False)


def _reference(involved: InvolvedObject) -> Tree:
    reference = {
        "kind": involved.kind,
        "namespace": involved.namespace,
        "name": involved.name,
        "uid": involved.uid,
        "apiVersion": involved.api_version,
        "resourceVersion": involved.revision,
        "fieldPath": involved.field,
    }
    return {key: value for key, value in reference.items() if value}


def _old_form(series: _Series) -> Tree:
    note = series.note
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": _metadata(series),
        "involvedObject": _reference(note.involved),
        "reason": note.reason,
        "message": note.message,
        "source": {"component": note.component},
        "firstTimestamp": stamp(series.first),
        "lastTimestamp": stamp(series.last),
        "count": series.count,
        "type": note.type,
        "eventTime": None,
        "reportingComponent": note.component,
        "reportingInstance": "",
    }


def _new_form(series: _Series, instance: str) -> Tree:
    note = series.note
    event: Tree = {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": _metadata(series),
        "eventTime": stamp_micro(series.first),
        "reportingController": note.component,
        "reportingInstance": (f"{note.component}-{instance}" if instance else note.component)[:_LONGEST_INSTANCE],
        "action": note.action,
        "reason": note.reason,
        "regarding": _reference(note.involved),
        "note": _cut(note.message),
        "type": note.type,
    }
    if series.count > 1:
        event["series"] = {"count": series.count, "lastObservedTime": stamp_micro(series.last)}
    return event


def _metadata(series: _Series) -> Tree:
    metadata: Tree = {"name": series.name, "namespace": series.namespace}
    if series.note.annotations:
        metadata["annotations"] = dict(series.note.annotations)
    return metadata


def _cut(note: str) -> str:
    """A note truncated to the limit in bytes."""
    data = note.encode()
    return note if len(data) <= _LONGEST_NOTE else data[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."


def _repeated(series: _Series) -> Tree:
    if series.note.action:
        patch: Tree = {"series": {"count": series.count, "lastObservedTime": stamp_micro(series.last)}}
        if series.note.annotations:
            patch["metadata"] = {"annotations": dict(series.note.annotations)}
        return patch
    return {"count": series.count, "lastTimestamp": stamp(series.last), "message": series.note.message}
