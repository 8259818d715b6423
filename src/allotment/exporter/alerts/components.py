"""What may be wrong with Allotment's own parts."""

from __future__ import annotations

from typing import Final

from allotment.exporter.alerts.alert import alert

COMPONENTS: Final = (
    alert(
        "AllotmentExporterSilent", "warning", "time() - allotment_exporter_last_contact_timestamp_seconds > 300", "5m",
        "The exporter has not heard from the API server for {{ $value | humanizeDuration }}",
        "What it serves is as old as that.",
        "Look at its log: it may not be let list or watch a kind (`allot rbac exporter`), or not reach the server.",
    ),
    alert(
        "AllotmentExporterMissing", "warning", "absent(allotment_exporter_builds_total)", "10m",
        "No exporter is scraped",
        "Prometheus has no metrics of devices: no alert of them can fire.",
        "Is it running (`kubectl get pods -l app.kubernetes.io/component=exporter`)? Does Prometheus find and reach "
        "it, and may it read /metrics? Its page of targets says so.",
    ),
    alert(
        "AllotmentSeriesDropped", "info", "sum by (metric) (allotment_series_dropped) > 0", "15m",
        "{{ $value }} series of {{ $labels.metric }} are dropped",
        "The metric has more series than --most-series: sums over it are too small.",
        "Raise --most-series, or do without --per-claim. A driver that publishes a product name of its own for each "
        "device makes as many series as devices.",
    ),
    alert(
        "AllotmentNoLeader", "critical", "max by (lease) (allotment_leader) < 1", "2m",
        "Nobody leads {{ $labels.lease }}",
        "All copies of the component stand by: its work is not done.",
        "`kubectl -n kube-system get lease` shows who has it. A copy that is gone keeps its Lease for its duration; "
        "longer means that no copy may write it (`allot rbac`), or that their clocks are far apart.",
    ),
    alert(
        "AllotmentSeveralLeaders", "critical", "sum by (lease) (allotment_leader) > 1", "1m",
        "{{ $value }} copies lead {{ $labels.lease }}",
        "Two copies do the same work.",
        "Are they of two clusters under one name of a Lease, or scraped into one Prometheus? Else stop one of them, "
        "and please report it.",
    ),
    alert(
        "AllotmentProgramRestarts", "warning",
        "sum by (program) (increase(allotment_program_restarts_total[15m])) > 3", "0m",
        "{{ $labels.program }} was started again {{ $value | humanize }} times in 15 minutes",
        "It crashes or ends, and begins again.",
        "Its log has the reason. Please report it.",
    ),
    alert(
        "AllotmentWorkFails", "warning",
        'sum by (work) (rate(allotment_work_duration_seconds_count{result="error"}[10m])) '
        "/ sum by (work) (rate(allotment_work_duration_seconds_count[10m])) > 0.1", "15m",
        "{{ $value | humanizePercentage }} of {{ $labels.work }} fails",
        "More than a tenth of the pieces of work ends with an error; each is tried again.",
        "The component's log has the errors. If the API server answers with them, AllotmentRequestsFail fires, too.",
    ),
    alert(
        "AllotmentSchedulerSlow", "warning",
        "histogram_quantile(0.99, sum by (le)"
        ' (rate(allotment_work_duration_seconds_bucket{work="schedule"}[10m]))) > 1', "15m",
        "The scheduler takes {{ $value | humanizeDuration }} for a pod",
        "One of a hundred attempts takes over a second.",
        "Selectors that read much of each device cost most. Is it short of CPU? `--traces` shows where the time goes.",
    ),
    alert(
        "AllotmentRequestsFail", "warning",
        'sum by (job) (rate(allotment_client_requests_total{code=~"0|5.."}[10m]))'
        " / sum by (job) (rate(allotment_client_requests_total[10m])) > 0.05", "15m",
        "{{ $value | humanizePercentage }} of the requests of {{ $labels.job }} fail",
        "The API server does not answer, or answers with 5xx.",
        "Look at the API server first. 0 means that no answer came: the network, or the server is restarted.",
    ),
)  # fmt: skip
