"""Alerts about Allotment's own components."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

COMPONENTS: Final = (
    alert(
        "AllotmentExporterSilent", "warning", "time() - allotment_exporter_last_contact_timestamp_seconds > 300", "5m",
        "The exporter has not received anything from the API server for {{ $value | humanizeDuration }}",
        "The metrics it serves are as old as that.",
        "Check its log: it may lack permission to list or watch a resource (`allot rbac exporter`), or cannot reach "
        "the server.",
    ),
    alert(
        "AllotmentExporterMissing", "warning", "absent(allotment_exporter_builds_total)", "10m",
        "No exporter is scraped",
        "Prometheus has no device metrics, so no alert about devices can fire.",
        "Is it running (`kubectl get pods -l app.kubernetes.io/component=exporter`)? Can Prometheus find and "
        "reach it, and is it allowed to read /metrics? Prometheus' targets page says.",
    ),
    alert(
        "AllotmentSeriesDropped", "info", "sum by (metric) (allotment_series_dropped) > 0", "15m",
        "{{ $value }} series of {{ $labels.metric }} are dropped",
        "The metric has more than --max-series series, so sums over it are too low.",
        "Raise --max-series, or turn off --per-claim. A driver that gives each device a product name of its own makes "
        "a series for each device.",
    ),
    alert(
        "AllotmentNoLeader", "critical", "max by (lease) (allotment_leader) < 1", "2m",
        "No leader for {{ $labels.lease }}",
        "All replicas of the component are on standby, and none does its work.",
        "`kubectl -n kube-system get lease` shows the holder. A replica that died keeps its Lease until it expires; "
        "longer than that, no replica is allowed to write it (`allot rbac`), or their clocks are far apart.",
    ),
    alert(
        "AllotmentSeveralLeaders", "critical", "sum by (lease) (allotment_leader) > 1", "1m",
        "{{ $value }} replicas lead {{ $labels.lease }}",
        "Several replicas do the same work.",
        "Does one Prometheus scrape two clusters? Then tell them apart by a label. Otherwise stop one of the replicas, "
        "and please report it.",
    ),
    alert(
        "AllotmentProgramRestarts", "warning",
        "sum by (program) (increase(allotment_program_restarts_total[15m])) > 3", "0m",
        "{{ $labels.program }} was restarted {{ $value | humanize }} times in 15 minutes",
        "It crashes or ends, and is started again.",
        "Its log has the reason. Please report it.",
    ),
    alert(
        "AllotmentWorkFails", "warning",
        'sum by (work) (rate(allotment_work_duration_seconds_count{result="error"}[10m])) '
        "/ sum by (work) (rate(allotment_work_duration_seconds_count[10m])) > 0.1", "15m",
        "{{ $value | humanizePercentage }} of {{ $labels.work }} fails",
        "More than 10 % of this work ends with an error; each attempt is repeated.",
        "The component's log has the errors. If they come from the API server, AllotmentRequestsFail fires, too.",
    ),
    alert(
        "AllotmentSchedulerSlow", "warning",
        "histogram_quantile(0.99, sum by (le)"
        ' (rate(allotment_work_duration_seconds_bucket{work="schedule"}[10m]))) > 1', "15m",
        "The scheduler takes {{ $value | humanizeDuration }} for a pod",
        "1 % of the attempts take over a second.",
        "Is it short of CPU? Long CEL selectors cost most. `--otlp-endpoint` shows where the time goes.",
    ),
    alert(
        "AllotmentRequestsFail", "warning",
        'sum by (job) (rate(allotment_client_requests_total{code=~"0|5.."}[10m]))'
        " / sum by (job) (rate(allotment_client_requests_total[10m])) > 0.05", "15m",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} fail",
        "The API server does not answer, or answers with 5xx.",
        "Check the API server first. Code 0 means no answer: a network problem, or the server is restarting.",
    ),
)  # fmt: skip
