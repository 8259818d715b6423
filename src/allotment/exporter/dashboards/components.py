"""How Allotment's own parts are."""

from __future__ import annotations

from typing import Final

from allotment.exporter.panels import Dashboard, Row, lines, quantile, stat
from allotment.exporter.queries import query

_NOW: Final = (
    stat("Components", "Copies that run.", "count(allotment_build_info)", width=6),
    stat(
        "Without a leader", "Leases of which no copy leads.",
        "count(max by (lease) (allotment_leader) < 1) or vector(0)", width=6, bad=True,
    ),
    stat(
        "Programs started again", "In the last hour.",
        "sum(increase(allotment_program_restarts_total[1h])) or vector(0)", width=6, bad=True,
    ),
    stat(
        "Silence", "Since the exporter heard from the API server.",
        "time() - min(allotment_exporter_last_contact_timestamp_seconds)", unit="s", width=6,
    ),
)  # fmt: skip
_WORK: Final = (
    lines(
        "Done", "Pieces of work by kind and how they ended.",
        query(
            "sum by (work, result) (rate(allotment_work_duration_seconds_count[$__rate_interval]))",
            "{{work}} {{result}}",
        ),
        unit="ops",
    ),
    lines(
        "How long it takes", "99 of 100 are faster.",
        query(quantile(0.99, "allotment_work_duration_seconds", by="work"), "{{work}}"), unit="s",
    ),
    lines(
        "What waits", "In queues, or is worked on.", query("sum by (queue) (allotment_queue_depth)", "{{queue}}")
    ),
    lines("Who leads", "1: this copy.", query("allotment_leader", "{{lease}} {{instance}}")),
)  # fmt: skip
_SERVER: Final = (
    lines(
        "Answers", "By code; 0: none came.",
        query("sum by (code) (rate(allotment_client_requests_total[$__rate_interval]))", "{{code}}"), unit="reqps",
        stacked=True,
    ),
    lines(
        "How long they take", "99 of 100 are faster.",
        query(quantile(0.99, "allotment_client_request_duration_seconds", by="method"), "{{method}}"), unit="s",
    ),
)  # fmt: skip
_EXPORTER: Final = (
    lines(
        "How long it takes", "To make the values, and to find out why pods wait.",
        query("max(allotment_exporter_build_seconds)", "values"),
        query("max(allotment_exporter_diagnosis_seconds)", "causes"), unit="s",
    ),
    lines(
        "Series that are dropped", "Because a metric has more than --most-series.",
        query("sum by (metric) (allotment_series_dropped)", "{{metric}}"),
    ),
)  # fmt: skip

COMPONENTS: Final = Dashboard(
    "allotment-components",
    "Allotment / Components",
    "Allotment's own parts: what they do, how long it takes, whether somebody leads, and what the API server answers.",
    (Row("Now", _NOW), Row("Work", _WORK), Row("The API server", _SERVER), Row("The exporter", _EXPORTER)),
)
