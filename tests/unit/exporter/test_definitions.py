"""The table of metrics follows the conventions of Prometheus and matches the served metrics."""

from __future__ import annotations

import asyncio
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from allotment.cluster.instrumentation import Instrumentation, WorkRecord
from allotment.components.metrics import Metrics
from allotment.exporter.definitions import CLAIM_CONTROLLER, COMPONENTS, METRICS, UNREAD
from allotment.exporter.metric import Family, Metric, Sample
from allotment.exporter.queries import UnknownName, query
from allotment.model.releases import RELEASES, release_table

EVERY = (*METRICS.values(), *COMPONENTS)


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.name)
def test_names_and_help_texts_follow_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"allotment(_[a-z0-9]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.kind != "histogram" or metric.name.endswith("_seconds")
    assert metric.help.endswith(".")
    assert metric.cardinality
    assert len(set(metric.labels)) == len(metric.labels)
    assert not {"pod", "uid", "device", "instance", "job"} & set(metric.labels)


def test_the_claim_controller_has_the_metrics_of_every_release() -> None:
    """Kubernetes' names of metrics of claims, except the scheduler's."""
    names = {
        name
        for release in RELEASES
        for name in release_table(release).metrics["kube-controller-manager"]
        if re.search(r"resource_?claim", name)
    }
    assert {metric.name for metric in CLAIM_CONTROLLER} == names


def test_names_are_unique() -> None:
    assert len({metric.name for metric in EVERY}) == len(EVERY)


def test_components_export_the_defined_metrics() -> None:
    observing = Instrumentation()
    metrics = Metrics("scheduler", observing, lambda: ())
    observing.gauge("queue", "active", lambda: 1.0)
    observing.record(WorkRecord("bind", "p", 0.0, 0.1, "bound", {}))
    observing.record(WorkRecord("run", "scheduler", 0.0, 0.1, "error", {}))
    metrics.record_request("get", 200, 0.1)
    metrics.add_leader_gauge("scheduler", lambda: True)
    metrics.add_families(lambda: [Family(UNREAD, [Sample(("devicetaintrules", "not-served"), 1)])])
    asyncio.run(metrics.update())
    text = metrics.exposition()[0].decode()
    served = {
        (family.name + ("_total" if family.type == "counter" else ""), family.type, family.documentation): {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in text_string_to_metric_families(text)
        if family.name.startswith("allotment_")
    }
    assert served == {(metric.name, metric.kind, metric.help): set(metric.labels) for metric in COMPONENTS}


@pytest.mark.parametrize(
    "expression",
    [
        "sum(allotment_gpus)",
        "up",
        'allotment_devices{pool="x"}',
        "sum by (namespace) (allotment_devices)",
        "allotment_claim_allocation_seconds",
        "allotment_devices_count",
        "allotment_devices{state=free}",
        "sum without (stat) (allotment_devices)",
    ],
)
def test_queries_of_unknown_metrics_or_labels_are_rejected(expression: str) -> None:
    with pytest.raises(UnknownName):
        query(expression)


def test_a_legend_uses_labels_of_the_queried_metric() -> None:
    with pytest.raises(UnknownName, match="namespace"):
        query("allotment_devices", "{{namespace}}")
    assert query("sum by (node) (allotment_devices)", "{{node}}").legend == "{{node}}"
