"""Work as spans: one trace for each pod, received by a real OTLP/HTTP endpoint."""

from __future__ import annotations

import uuid

import pytest

from allotment.cluster.instrumentation import Instrumentation, WorkRecord
from allotment.components.traces import export_traces, traces_url
from tests.components.otlp import receiving

POD = str(uuid.uuid4())


def test_the_attempts_and_the_binding_of_a_pod_are_one_trace() -> None:
    with receiving() as receiver:
        observing = Instrumentation()
        with export_traces(f"http://127.0.0.1:{receiver.server_port}", "allot-scheduler", observing):
            observing.record(
                WorkRecord("schedule", POD, 100.0, 0.5, "unschedulable", {"pod": "default/web", "claims": 1})
            )
            observing.record(
                WorkRecord("schedule", POD, 110.0, 0.25, "scheduled", {"pod": "default/web", "node": "n1"})
            )
            observing.record(WorkRecord("bind", POD, 110.25, 1.0, "bound", {"pod": "default/web", "node": "n1"}))
            observing.record(WorkRecord("sync_claim", "claim default/a", 1.0, 1.0, "done", {}))
        assert [path for path, _ in receiver.requests] == ["/v1/traces"]
        resource = receiver.requests[0][1].resource_spans[0].resource
        assert {a.key: a.value.string_value for a in resource.attributes}["service.name"] == "allot-scheduler"
        spans = {(span.name, span.start_time_unix_nano): span for span in receiver.spans}
    assert len(spans) == 4, "work without a pod has no trace"
    assert {span.trace_id for span in spans.values()} == {uuid.UUID(POD).bytes}
    whole = spans["pod", 100_000_000_000]
    assert whole.end_time_unix_nano == 111_250_000_000
    assert not whole.parent_span_id
    parts = [span for span in spans.values() if span.name != "pod"]
    assert {span.parent_span_id for span in parts} == {whole.span_id}
    attempt = spans["schedule", 110_000_000_000]
    assert attempt.end_time_unix_nano == 110_250_000_000
    assert {a.key: a.value.string_value for a in attempt.attributes} == {
        "pod": "default/web", "node": "n1", "result": "scheduled",
    }  # fmt: skip


def test_an_unreachable_endpoint_does_not_delay_work(caplog: pytest.LogCaptureFixture) -> None:
    observing = Instrumentation()
    with export_traces("http://127.0.0.1:9", "allot-scheduler", observing):
        observing.record(WorkRecord("bind", POD, 1.0, 1.0, "error", {}))
    assert observing.listeners == []
    assert caplog.records, "it is said"


def test_an_endpoint_with_a_path_is_used_as_it_is() -> None:
    assert traces_url("https://collector/otlp/v1/traces") == "https://collector/otlp/v1/traces"
