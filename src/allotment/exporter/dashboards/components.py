"""The dashboard of Allotment's own components."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, lines, quantile, stat
from allotment.exporter.queries import query

_NOW: Final = (
    stat("Components", "Running replicas.", "count(allotment_build_info)", width=6),
    stat(
        "Without a leader", "Leases that no replica holds.",
        "count(max by (lease) (allotment_leader) < 1) or vector(0)", width=6, bad=True,
    ),
    stat(
        "Restarts", "Of programs, in the last hour.",
        "sum(increase(allotment_program_restarts_total[1h])) or vector(0)", width=6, bad=True,
    ),
    stat(
        "Last contact", "Time since the exporter last received anything from the API server.",
        "time() - min(allotment_exporter_last_contact_timestamp_seconds)", unit="s", width=6,
    ),
)  # fmt: skip
_WORK: Final = (
    lines(
        "Throughput", "Units of work by kind and result.",
        query(
            "sum by (work, result) (rate(allotment_work_duration_seconds_count[$__rate_interval]))",
            "{{work}} {{result}}",
        ),
        unit="ops",
    ),
    lines(
        "Duration (p99)", "By kind of work.",
        query(quantile(0.99, "allotment_work_duration_seconds", by="work"), "{{work}}"), unit="s",
    ),
    lines(
        "Queue depth", "Items waiting or being worked on.", query("sum by (queue) (allotment_queue_depth)", "{{queue}}")
    ),
    lines("Leader", "1: this replica leads.", query("allotment_leader", "{{lease}} {{instance}}")),
)  # fmt: skip
_SERVER: Final = (
    lines(
        "Requests", "By status code; 0: no answer.",
        query("sum by (code) (rate(allotment_client_requests_total[$__rate_interval]))", "{{code}}"), unit="reqps",
        stacked=True,
    ),
    lines(
        "Latency (p99)", "By method.",
        query(quantile(0.99, "allotment_client_request_duration_seconds", by="method"), "{{method}}"), unit="s",
    ),
)  # fmt: skip
_EXPORTER: Final = (
    lines(
        "Duration", "Of computing the metrics, and of diagnosing pending pods.",
        query("max(allotment_exporter_build_seconds)", "values"),
        query("max(allotment_exporter_diagnosis_seconds)", "causes"), unit="s",
    ),
    lines(
        "Dropped series", "Metrics with more than --max-series.",
        query("sum by (metric) (allotment_series_dropped)", "{{metric}}"),
    ),
)  # fmt: skip

COMPONENTS: Final = Dashboard(
    "allotment-components",
    "Allotment / Components",
    "Allotment's own components: throughput, durations, leaders, and answers of the API server.",
    (
        PanelRow("Now", _NOW),
        PanelRow("Work", _WORK),
        PanelRow("The API server", _SERVER),
        PanelRow("The exporter", _EXPORTER),
    ),
)
