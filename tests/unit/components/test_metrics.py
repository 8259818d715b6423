"""Reports of programs become Prometheus metrics whose names follow the conventions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

import pytest
from prometheus_client.parser import text_string_to_metric_families

from allotment.cluster.instrumentation import Instrumentation, WorkRecord
from allotment.components.metrics import Metrics
from allotment.exporter.metric import Distribution, Family, Metric, Sample

DEVICES = Metric("allotment_devices", "gauge", "Devices by state.", ("state",), "one per state")
MADE = Metric("allotment_claims_made_total", "counter", "Claims made.", (), "one")
WAITED = Metric("allotment_wait_seconds", "histogram", "How long claims waited.", ("class",), "one per class")
FAMILIES = (
    Family(DEVICES, (Sample(("free",), 3), Sample(("used",), 5))),
    Family(MADE, (Sample((), 7),)),
    Family(WAITED, (Distribution(("gpu",), (0.5, 1), (2, 3), 4, 9.5),)),
)


def none() -> Sequence[Family]:
    return ()


def values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    asyncio.run(metrics.update())
    text, content_type = metrics.exposition()
    assert content_type.startswith("text/plain")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_work_is_counted_by_result() -> None:
    observing = Instrumentation()
    metrics = Metrics("scheduler", observing, none)
    with observing.work("schedule", "uid") as work:
        work.result = "scheduled"
        work.attributes["pod"] = "default/web"
    with pytest.raises(RuntimeError), observing.work("schedule"):
        raise RuntimeError
    found = values(metrics)
    assert found["allotment_work_duration_seconds_count", "scheduled", "schedule"] == 1
    assert found["allotment_work_duration_seconds_count", "error", "schedule"] == 1
    assert not [key for key in found if "default/web" in key], "object names are not labels"


def test_restarts_requests_and_leadership_are_counted() -> None:
    observing = Instrumentation()
    metrics = Metrics("scheduler", observing, none)
    leads = [True]
    metrics.add_leader_gauge("allotment-scheduler", lambda: leads[0])
    observing.record(WorkRecord("run", "scheduler", 0, 1, "crashed", {}))
    metrics.record_request("GET", 200, 0.003)
    metrics.record_request("GET", 0, 10)
    found = values(metrics)
    assert found["allotment_program_restarts_total", "scheduler"] == 1
    assert found["allotment_client_requests_total", "200", "GET"] == 1
    assert found["allotment_client_requests_total", "0", "GET"] == 1
    assert found["allotment_client_request_duration_seconds_count", "GET"] == 2
    assert found["allotment_leader", "allotment-scheduler"] == 1
    leads[0] = False
    assert values(metrics)["allotment_leader", "allotment-scheduler"] == 0


def test_gauges_are_read_on_scrape() -> None:
    observing = Instrumentation()
    metrics = Metrics("claims", observing, none)
    waiting = [1]
    observing.gauge("queue", "resource_claim", lambda: waiting[0])
    assert values(metrics)["allotment_queue_depth", "resource_claim"] == 1
    waiting[0] = 4
    assert values(metrics)["allotment_queue_depth", "resource_claim"] == 4


def test_exporter_metrics_are_served_too() -> None:
    found = values(Metrics("exporter", Instrumentation(), lambda: FAMILIES))
    assert found["allotment_devices", "free"] == 3
    assert found["allotment_claims_made_total",] == 7
    buckets = {key[2]: value for key, value in found.items() if key[0] == "allotment_wait_seconds_bucket"}
    assert buckets == {"0.5": 2, "1.0": 3, "+Inf": 4}
    assert found["allotment_wait_seconds_sum", "gpu"] == 9.5
    assert found["allotment_wait_seconds_count", "gpu"] == 4


def test_names_follow_the_conventions() -> None:
    observing = Instrumentation()
    metrics = Metrics("exporter", observing, lambda: FAMILIES)
    metrics.add_leader_gauge("a", lambda: True)
    observing.gauge("queue", "a", lambda: 1)
    with observing.work("plan"):
        pass
    metrics.record_request("GET", 200, 0.1)
    observing.record(WorkRecord("run", "a", 0, 1, "ended", {}))
    asyncio.run(metrics.update())
    families = list(text_string_to_metric_families(metrics.exposition()[0].decode()))
    assert len(families) > 10
    for family in families:
        assert family.documentation.endswith(".") or family.name.startswith(("process_", "python_"))
        assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
        assert (family.type == "counter") == all(sample.name.endswith("_total") for sample in family.samples)
        assert not family.name.endswith(("_created", "_milliseconds", "_ms"))


def test_openmetrics_is_served_on_request() -> None:
    text, content_type = Metrics("a", Instrumentation(), none).exposition("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
