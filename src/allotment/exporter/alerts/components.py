"""Alerts about Allotment's own components."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

COMPONENTS: Final = (
    alert(
        "AllotmentExporterSilent", "warning", "time() - allotment_exporter_last_contact_timestamp_seconds > 300", "5m",
        "The exporter has not received anything from the API server for {{ $value | humanizeDuration }}",
        "The exporter's metrics have not been updated since then.",
        "Check the exporter's log: it may lack the permission to list or watch a resource (`allot rbac exporter`), or "
        "it cannot reach the API server.",
    ),
    alert(
        "AllotmentExporterMissing", "warning", "absent(allotment_exporter_builds_total)", "10m",
        "Prometheus scrapes no exporter",
        "Prometheus has no device metrics, so no alert about devices can fire.",
        "Check that the exporter is running (`kubectl get pods -l app.kubernetes.io/component=exporter`). The targets "
        "page of Prometheus shows whether it can reach the exporter and is allowed to read /metrics.",
    ),
    alert(
        "AllotmentSeriesDropped", "info", "sum by (metric) (allotment_series_dropped) > 0", "15m",
        "{{ $value }} series of {{ $labels.metric }} are dropped",
        "The metric has more than --max-series series, so sums over it are too low.",
        "Increase --max-series, or omit --per-claim. A driver that publishes a different product name for each device "
        "causes one series per device.",
    ),
    alert(
        "AllotmentNoLeader", "critical", "max by (lease) (allotment_leader) < 1", "2m",
        "No leader for {{ $labels.lease }}",
        "All replicas of the component are on standby, so its work is not done.",
        "`kubectl -n kube-system get lease` shows the holder; the Lease of a crashed replica first has to expire. If "
        "no replica becomes the leader after that, check their permission to update it (`allot rbac`) and their "
        "clocks.",
    ),
    alert(
        "AllotmentSeveralLeaders", "critical", "sum by (lease) (allotment_leader) > 1", "1m",
        "{{ $value }} replicas are leaders for {{ $labels.lease }}",
        "Several replicas of the component do the same work.",
        "If one Prometheus scrapes several clusters, distinguish them by a label. Otherwise stop one of the replicas, "
        "and please report this.",
    ),
    alert(
        "AllotmentProgramRestarts", "warning",
        "sum by (program) (increase(allotment_program_restarts_total[15m])) > 3", "0m",
        "{{ $labels.program }} was restarted {{ $value | humanize }} times in 15 minutes",
        "The program crashes or exits, and is restarted each time.",
        "The log of the component contains the reason. Please report this.",
    ),
    alert(
        "AllotmentWorkFails", "warning",
        'sum by (work) (rate(allotment_work_duration_seconds_count{result="error"}[10m])) '
        "/ sum by (work) (rate(allotment_work_duration_seconds_count[10m])) > 0.1", "15m",
        "{{ $value | humanizePercentage }} of the work of kind {{ $labels.work }} fails",
        "More than 10 % of the attempts end with an error and are retried.",
        "The component's log contains the errors. If the API server causes them, AllotmentRequestsFail fires, too.",
    ),
    alert(
        "AllotmentSchedulerSlow", "warning",
        "histogram_quantile(0.99, sum by (le)"
        ' (rate(allotment_work_duration_seconds_bucket{work="schedule"}[10m]))) > 1', "15m",
        "The scheduler takes {{ $value | humanizeDuration }} for a pod",
        "1 % of the scheduling attempts take over a second.",
        "Check whether the scheduler has enough CPU; long CEL selectors take the most time. Traces (`--otlp-endpoint`) "
        "show where the time is spent.",
    ),
    alert(
        "AllotmentRequestsFail", "warning",
        'sum by (job) (rate(allotment_client_requests_total{code=~"0|5.."}[10m]))'
        " / sum by (job) (rate(allotment_client_requests_total[10m])) > 0.05", "15m",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} fail",
        "The API server does not respond, or responds with status 5xx.",
        "Check the API server first. Code 0 means no response: a network problem, or the server is restarting.",
    ),
)  # fmt: skip
