"""The dashboard of Allotment's own components."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, PanelRow, lines, quantile, stat
from allotment.exporter.queries import query

_NOW: Final = (
    stat("Components", "Running replicas of all components.", "count(allotment_build_info)", width=6),
    stat(
        "Without a leader", "Leases that no replica holds.",
        "count(max by (lease) (allotment_leader) < 1) or vector(0)", width=6, bad=True,
    ),
    stat(
        "Restarts", "Restarts of programs in the last hour.",
        "sum(increase(allotment_program_restarts_total[1h])) or vector(0)", width=6, bad=True,
    ),
    stat(
        "Last contact", "Time since the exporter last received anything from the API server.",
        "time() - min(allotment_exporter_last_contact_timestamp_seconds)", unit="s", width=6,
    ),
)  # fmt: skip
_WORK: Final = (
    lines(
        "Throughput", "Units of work per second, by kind and result.",
        query(
            "sum by (work, result) (rate(allotment_work_duration_seconds_count[$__rate_interval]))",
            "{{work}} {{result}}",
        ),
        unit="ops",
    ),
    lines(
        "Duration (p99)", "99th percentile of the duration of a unit of work, by kind.",
        query(quantile(0.99, "allotment_work_duration_seconds", by="work"), "{{work}}"), unit="s",
    ),
    lines(
        "Queue depth", "Items that are waiting or being processed.",
        query("sum by (queue) (allotment_queue_depth)", "{{queue}}"),
    ),
    lines(
        "Leader", "1: the replica is the leader. 0: it is on standby.",
        query("allotment_leader", "{{lease}} {{instance}}"),
    ),
)  # fmt: skip
_SERVER: Final = (
    lines(
        "Requests", "Requests per second, by status code. 0: no response.",
        query("sum by (code) (rate(allotment_client_requests_total[$__rate_interval]))", "{{code}}"), unit="reqps",
        stacked=True,
    ),
    lines(
        "Latency (p99)", "99th percentile of the time to the first byte of the response, by method.",
        query(quantile(0.99, "allotment_client_request_duration_seconds", by="method"), "{{method}}"), unit="s",
    ),
)  # fmt: skip
_EXPORTER: Final = (
    lines(
        "Duration", "Time to compute the metrics and to diagnose pending pods.",
        query("max(allotment_exporter_build_seconds)", "metrics"),
        query("max(allotment_exporter_diagnosis_seconds)", "diagnosis"), unit="s",
    ),
    lines(
        "Dropped series", "Series dropped from metrics that exceed --max-series.",
        query("sum by (metric) (allotment_series_dropped)", "{{metric}}"),
    ),
)  # fmt: skip

COMPONENTS: Final = Dashboard(
    "allotment-components",
    "Allotment / Components",
    "Allotment's own components: throughput, durations, leaders, and requests to the API server.",
    (
        PanelRow("Now", _NOW),
        PanelRow("Work", _WORK),
        PanelRow("The API server", _SERVER),
        PanelRow("The exporter", _EXPORTER),
    ),
)
