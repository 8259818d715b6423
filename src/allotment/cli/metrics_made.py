"""``allot metrics list``, ``dashboards`` and ``alerts``: what is made of the metrics' definitions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from allotment.cli.screen import folded, open_screen
from allotment.exporter import alerts
from allotment.exporter.dashboards import DASHBOARDS
from allotment.exporter.definition import Metric
from allotment.exporter.definitions import COMPONENTS, GROUPS
from allotment.exporter.grafana import document
from allotment.model.formats import to_json, to_yaml


def run_list(arguments: Namespace) -> int:
    """Print what each metric is."""
    screen = open_screen()
    groups = {**GROUPS, "Every component": COMPONENTS}
    if arguments.output in ("json", "yaml"):
        data = {"metrics": [_data(metric, group) for group, metrics in groups.items() for metric in metrics]}
        screen.data(data, arguments.output)
        return 0
    if arguments.output == "wide":
        for metrics in groups.values():
            for metric in metrics:
                screen.line(f"{metric.name}  {metric.kind}  {', '.join(metric.labels)}".rstrip())
                for text in (metric.help, f"series: {metric.most}"):
                    for line in folded(text, screen.width or 80, "    "):
                        screen.line(line)
        return 0
    rows = [(metric.name, metric.kind, ",".join(metric.labels)) for metrics in groups.values() for metric in metrics]
    screen.table(("NAME", "TYPE", "LABELS"), rows, ("LABELS",))
    return 0


def run_dashboards(arguments: Namespace) -> int:
    """Write the dashboards."""
    return _written(arguments.directory, dashboard_files())


def run_alerts(arguments: Namespace) -> int:
    """Write the alerting rules."""
    return _written(arguments.directory, alert_files(arguments.runbooks))


def dashboard_files() -> dict[str, str]:
    """The dashboards by the names of their files."""
    return {name: to_json(document(dashboard)) + "\n" for name, dashboard in DASHBOARDS.items()}


def alert_files(runbooks: str = alerts.RUNBOOKS) -> dict[str, str]:
    """The rules for Prometheus, and as an object for its operator."""
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


def _data(metric: Metric, group: str) -> dict[str, object]:
    return {
        "name": metric.name,
        "type": metric.kind,
        "help": metric.help,
        "labels": list(metric.labels),
        "series": metric.most,
        "group": group,
    }
