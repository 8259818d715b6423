"""Work as traces, for whoever wants to see how a pod got its devices: OpenTelemetry's spans over OTLP/HTTP.

One trace for each object, whose id is the object's uid: all attempts to schedule a pod are found by the pod, across
restarts and copies. The pieces of work are told when they have ended (`cluster.observing`), so spans are made with
times that lie behind. Without the extra ``traces`` nothing of this is there.
"""

from __future__ import annotations

import logging
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

from allotment import __version__
from allotment.cluster.instrumentation import Instrumentation, WorkRecord

log = logging.getLogger(__name__)

#: What ends the story of an object, and how its whole span is called.
_LAST: Final = {("bind", "bound"): "pod"}
_MOST_REMEMBERED: Final = 20_000
_FLUSH_MILLISECONDS: Final = 3_000


@contextmanager
def export_traces(endpoint: str, service: str, observing: Instrumentation) -> Iterator[None]:
    """Send what programs do to an OTLP/HTTP endpoint (``http://host:4318``, or with its path)."""
    resource = Resource.create({"service.name": service, "service.version": __version__})
    ids = _Ids()
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=5)))
    told = _Told(provider, ids)
    observing.listeners.append(told.heard)
    try:
        yield
    finally:
        observing.listeners.remove(told.heard)
        provider.force_flush(_FLUSH_MILLISECONDS)
        provider.shutdown()


def traces_url(endpoint: str) -> str:
    """With the path that OTLP has for traces, where only a host is said.

    >>> traces_url("http://jaeger:4318")
    'http://jaeger:4318/v1/traces'
    """
    rest = endpoint.split("://", 1)[-1].rstrip("/")
    return endpoint if "/" in rest else f"{endpoint.rstrip('/')}/v1/traces"


class _Ids(IdGenerator):
    """The next span's ids, where somebody has chosen them."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.trace = self.span = 0

    def generate_span_id(self) -> int:
        chosen, self.span = self.span, 0
        return chosen or self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        chosen, self.trace = self.trace, 0
        return chosen or self._random.generate_trace_id()


class _Told:
    def __init__(self, provider: TracerProvider, ids: _Ids) -> None:
        self._tracer = provider.get_tracer("allotment", __version__)
        self._ids = ids
        self._began: OrderedDict[str, float] = OrderedDict()
        """When the first piece of work about an object (uid) began."""

    def heard(self, done: WorkRecord) -> None:
        """A piece of work has ended."""
        trace = _trace_of(done.subject)
        if trace is None:
            return
        began = self._began.setdefault(done.subject, done.start)
        if len(self._began) > _MOST_REMEMBERED:
            self._began.popitem(last=False)
        whole = SpanContext(trace, trace & 0xFFFF_FFFF_FFFF_FFFF or 1, False, TraceFlags(TraceFlags.SAMPLED))
        end = done.start + done.seconds
        span = self._tracer.start_span(
            done.name, set_span_in_context(NonRecordingSpan(whole)), start_time=_nanoseconds(done.start),
            attributes={"result": done.result, **done.attributes},
        )  # fmt: skip
        if done.result == "error":
            span.set_status(Status(StatusCode.ERROR))
        span.end(_nanoseconds(end))
        if (name := _LAST.get((done.name, done.result))) is not None:
            self._ids.trace, self._ids.span = trace, whole.span_id
            root = self._tracer.start_span(
                name, set_span_in_context(NonRecordingSpan(SpanContext(0, 0, False))),
                start_time=_nanoseconds(began), attributes=dict(done.attributes),
            )  # fmt: skip
            root.end(_nanoseconds(end))
            self._began.pop(done.subject, None)


def _trace_of(subject: str) -> int | None:
    """An object's uid is as long as a trace's id; what has none has no trace."""
    try:
        return uuid.UUID(subject).int or None
    except ValueError:
        return None


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
