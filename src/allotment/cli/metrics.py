"""``allot metrics``: prints a cluster's metrics in Prometheus' text format, definitions, dashboards and alerts."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from allotment.api.objects.unread_resources import NEEDED, OF_DEVICES, OF_PODS, must_know
from allotment.api.question import Question
from allotment.cli.inputs.catalogs import selected_types
from allotment.cli.inputs.clusters import cluster_errors_of, cluster_of, objects_of
from allotment.cli.output.console import folded, open_screen, print_notes
from allotment.cluster.inspection.snapshot import DEVICES, PODS
from allotment.errors import InputError
from allotment.exporter import alerts
from allotment.exporter.dashboards import DASHBOARDS
from allotment.exporter.definitions import COMPONENTS, GROUPS, UNREAD
from allotment.exporter.families import families
from allotment.exporter.grafana import document
from allotment.exporter.metric import Family, Sample
from allotment.extras import require
from allotment.fleet.catalog import InstanceType
from allotment.model.serialization import to_json, to_yaml
from allotment.reference.exporter_metrics import metrics
from allotment.tools.unread import NOT_SERVED, unread_notes, unread_resources


def run(arguments: Namespace) -> int:
    """Print the metrics of a cluster."""
    require("allot metrics", "run")
    most = most_series(arguments)
    types = catalog_of(arguments.catalog)
    cluster = cluster_of(arguments)
    with cluster_errors_of(cluster):
        inputs = Question.of(objects_of(arguments), cluster, arguments.namespace).read((*DEVICES, *PODS)).inputs
    from allotment.components.metrics import text_of

    must_know(inputs.cluster, *OF_DEVICES, *OF_PODS)
    unread = unread_resources(inputs.cluster, NEEDED)
    print_notes(dict.fromkeys((*inputs.notes, *unread_notes(unread))))
    values = (*inputs.cluster, *inputs.queried)
    found = families(values, inputs.features, types, per_claim=arguments.per_claim, max_series=most)
    sys.stdout.write(text_of((*found, *_unread(unread))))
    return 0


def _unread(unread: Mapping[str, str]) -> tuple[Family, ...]:
    """Return the metric of the resources that were not read, if there are any."""
    reasons = {NOT_SERVED: "not-served", "forbidden": "forbidden"}
    samples = [Sample((name, reasons.get(why, "unknown-version")), 1.0) for name, why in unread.items()]
    return (Family(UNREAD, samples),) if samples else ()


def catalog_of(words: Sequence[str]) -> Sequence[InstanceType]:
    """Return the catalog of ``--catalog``; prices are unknown without one. Raises InputError."""
    return selected_types(words) if words else ()


def most_series(arguments: Namespace) -> int:
    """Return the value of ``--max-series``. Raises InputError."""
    most: int = arguments.max_series
    if most < 1:
        raise InputError(f"--max-series: expected a number >= 1, found {most}")
    return most


def run_list(arguments: Namespace) -> int:
    """Print the definition of each metric."""
    screen = open_screen()
    groups = {**GROUPS, "Every component": COMPONENTS}
    if arguments.output in ("json", "yaml"):
        screen.data({"metrics": metrics()}, arguments.output)
        return 0
    if arguments.output == "wide":
        for group in groups.values():
            for metric in group:
                screen.line(f"{metric.name}  {metric.kind}  {', '.join(metric.labels)}".rstrip())
                for text in (metric.help, f"series: {metric.cardinality}"):
                    for line in folded(text, screen.width or 80, "    "):
                        screen.line(line)
        return 0
    rows = [(metric.name, metric.kind, ",".join(metric.labels)) for group in groups.values() for metric in group]
    screen.table(("NAME", "TYPE", "LABELS"), rows, ("LABELS",))
    return 0


def run_dashboards(arguments: Namespace) -> int:
    """Write the dashboards."""
    return _written(arguments.output_dir, dashboard_files())


def run_alerts(arguments: Namespace) -> int:
    """Write the alerting rules."""
    return _written(arguments.output_dir, alert_files(arguments.runbook_url))


def dashboard_files() -> dict[str, str]:
    """Return the dashboards by file name."""
    return {name: to_json(document(dashboard)) + "\n" for name, dashboard in DASHBOARDS.items()}


def alert_files(runbooks: str = alerts.RUNBOOKS) -> dict[str, str]:
    """Return the rules for Prometheus, and as a PrometheusRule, by file name."""
    return {
        "allotment.rules.yaml": to_yaml([alerts.rules(runbooks)]),
        "prometheusrule.yaml": to_yaml([alerts.prometheus_rule(runbooks)]),
    }


def _written(directory: str, files: Mapping[str, str]) -> int:
    screen = open_screen()
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        screen.line(f"{folder / name}")
    return 0
