"""OpenTelemetry traces of the work of a component, sent over OTLP/HTTP.

Each object has one trace, whose id is the object's uid: it contains all attempts to schedule a pod, across restarts and
copies. Work is recorded when it has ended (`cluster.instrumentation`), so spans are created with past times. Requires
the extra ``traces``.
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

#: The work and result that complete an object, and the name of its root span.
_LAST: Final = {("bind", "bound"): "pod"}
_MAX_OBJECTS: Final = 20_000
_FLUSH_MILLISECONDS: Final = 3_000


@contextmanager
def export_traces(endpoint: str, service: str, observing: Instrumentation) -> Iterator[None]:
    """Send records of work to an OTLP/HTTP endpoint (``http://host:4318``, or with a path)."""
    resource = Resource.create({"service.name": service, "service.version": __version__})
    ids = _Ids()
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=5)))
    exporter = _SpanExporter(provider, ids)
    observing.listeners.append(exporter.export)
    try:
        yield
    finally:
        observing.listeners.remove(exporter.export)
        provider.force_flush(_FLUSH_MILLISECONDS)
        provider.shutdown()


def traces_url(endpoint: str) -> str:
    """Add the default OTLP path for traces if the endpoint has no path.

    >>> traces_url("http://jaeger:4318")
    'http://jaeger:4318/v1/traces'
    """
    rest = endpoint.split("://", 1)[-1].rstrip("/")
    return endpoint if "/" in rest else f"{endpoint.rstrip('/')}/v1/traces"


class _Ids(IdGenerator):
    """Generates ids, or returns the ones set for the next span."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.trace = self.span = 0

    def generate_span_id(self) -> int:
        chosen, self.span = self.span, 0
        return chosen or self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        chosen, self.trace = self.trace, 0
        return chosen or self._random.generate_trace_id()


class _SpanExporter:
    def __init__(self, provider: TracerProvider, ids: _Ids) -> None:
        self._tracer = provider.get_tracer("allotment", __version__)
        self._ids = ids
        self._started: OrderedDict[str, float] = OrderedDict()
        """Start time of the first work on an object (uid)."""

    def export(self, done: WorkRecord) -> None:
        """Export a piece of work."""
        trace = _trace_of(done.subject)
        if trace is None:
            return
        start = self._started.setdefault(done.subject, done.start)
        if len(self._started) > _MAX_OBJECTS:
            self._started.popitem(last=False)
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
                start_time=_nanoseconds(start), attributes=dict(done.attributes),
            )  # fmt: skip
            root.end(_nanoseconds(end))
            self._started.pop(done.subject, None)


def _trace_of(subject: str) -> int | None:
    """The trace id, which is the object's uid; None for other subjects."""
    try:
        return uuid.UUID(subject).int or None
    except ValueError:
        return None


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
