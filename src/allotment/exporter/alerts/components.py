"""Alerts about Allotment's own components."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

COMPONENTS: Final = (
    alert(
        "AllotmentExporterSilent", "warning", "time() - allotment_exporter_last_contact_timestamp_seconds > 300", "5m",
        "The exporter has not received anything from the API server for {{ $value | humanizeDuration }}",
        "The exporter's metrics are out of date.",
        "Check the exporter's log. The exporter may lack the permission to list or watch a resource (`allot rbac "
        "exporter` prints the required permissions), or it cannot reach the API server.",
    ),
    alert(
        "AllotmentExporterMissing", "warning", "absent(allotment_exporter_builds_total)", "10m",
        "Prometheus does not scrape any exporter",
        "Prometheus has no device metrics, so no alert about devices can fire.",
        "Check that the exporter is running (`kubectl get pods -l app.kubernetes.io/component=exporter`). The targets "
        "page of Prometheus shows whether it can reach the exporter and is allowed to read /metrics.",
    ),
    alert(
        "AllotmentSeriesDropped", "info", "sum by (metric) (allotment_series_dropped) > 0", "15m",
        "{{ $value }} series of {{ $labels.metric }} are dropped",
        "The metric exceeds the limit set by --max-series, so sums over it are too low.",
        "Increase --max-series, or omit --per-claim. If a driver publishes a different product name for each device, "
        "each device has its own series.",
    ),
    alert(
        "AllotmentNoLeader", "critical", "max by (lease) (allotment_leader) < 1", "2m",
        "{{ $labels.lease }} has no leader",
        "All replicas of the component are on standby, so the component is not working.",
        "`kubectl get leases -A` shows the holder of the Lease. If the leader has crashed, the Lease must expire "
        "before another replica becomes the leader. If this does not happen, check whether the replicas are allowed to "
        "update the Lease (`allot rbac`) and whether their clocks are correct.",
    ),
    alert(
        "AllotmentSeveralLeaders", "critical", "sum by (lease) (allotment_leader) > 1", "1m",
        "{{ $labels.lease }} has {{ $value }} leaders at the same time",
        "Several replicas of the component are doing the same work.",
        "If one Prometheus server scrapes several clusters, add a label that distinguishes them. Otherwise stop all "
        "but one of the replicas, and please report a bug.",
    ),
    alert(
        "AllotmentProgramRestarts", "warning",
        "sum by (program) (increase(allotment_program_restarts_total[15m])) > 3", "0m",
        "{{ $labels.program }} was restarted {{ $value | humanize }} times in 15 minutes",
        "The program keeps crashing or exiting, and is restarted each time.",
        "The component's log contains the reason. Please report a bug.",
    ),
    alert(
        "AllotmentWorkFails", "warning",
        'sum by (work) (rate(allotment_work_duration_seconds_count{result="error"}[10m])) '
        "/ sum by (work) (rate(allotment_work_duration_seconds_count[10m])) > 0.1", "15m",
        "{{ $value | humanizePercentage }} of the work items of kind {{ $labels.work }} fail",
        "More than 10% of the attempts fail with an error and are retried.",
        "The component's log contains the errors. If the API server causes them, AllotmentRequestsFail also fires.",
    ),
    alert(
        "AllotmentSchedulerSlow", "warning",
        "histogram_quantile(0.99, sum by (le)"
        ' (rate(allotment_work_duration_seconds_bucket{work="schedule"}[10m]))) > 1', "15m",
        "The scheduler takes {{ $value | humanizeDuration }} per pod (p99)",
        "At least 1% of the scheduling attempts take more than a second.",
        "Check whether the scheduler has enough CPU. Complex CEL selectors take the most time. Traces "
        "(`--otlp-endpoint`) show where the time is spent.",
    ),
    alert(
        "AllotmentRequestsFail", "warning",
        'sum by (job) (rate(allotment_client_requests_total{code=~"0|5.."}[10m]))'
        " / sum by (job) (rate(allotment_client_requests_total[10m])) > 0.05", "15m",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} fail",
        "The API server does not respond, or responds with status 5xx.",
        "Check the API server first. Code 0 means that there was no response: either the network is faulty, or the "
        "server is restarting.",
    ),
)  # fmt: skip
