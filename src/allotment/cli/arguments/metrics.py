"""The arguments of ``allot metrics``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_catalog, add_inputs, add_output, add_renamed, lazy

_METRICS: Final = """\
Print the current metrics of devices, claims and pods: of a running cluster, a
snapshot or hardware. `allot run exporter` serves the same metrics.

  allot metrics                           the cluster of the current context
  allot metrics --cluster snapshot.yaml   a cluster snapshot
  allot metrics --catalog aws             include the costs of nodes and claims
  allot metrics list                      describe each metric
  allot metrics dashboards -d DIR         write dashboards for Grafana
  allot metrics alerts -d DIR             write alerts for Prometheus
"""


def add_metrics(commands: Commands) -> None:
    """Add ``metrics`` and its subcommands."""
    metrics = commands.add_parser(
        "metrics", help="print Prometheus metrics of devices and claims; write dashboards and alerts",
        description=_METRICS,
    )  # fmt: skip
    add_inputs(metrics)
    add_options(metrics)
    metrics.set_defaults(run=lazy("metrics"))
    inner = metrics.add_subparsers(title="commands", metavar="COMMAND")

    listing = inner.add_parser("list", help="list all metrics with their labels, meaning and number of series")
    add_output(listing, ("wide", "json", "yaml"))
    listing.set_defaults(run=lazy("metrics", "run_list"))

    dashboards = inner.add_parser("dashboards", help="write Grafana dashboards")
    _add_output_dir(dashboards)
    dashboards.set_defaults(run=lazy("metrics", "run_dashboards"))

    alerts = inner.add_parser("alerts", help="write alerting rules for Prometheus and for the Prometheus operator")
    _add_output_dir(alerts)
    add_renamed(
        alerts, "--runbook-url", "--runbooks", default="docs/reference/metrics.md", metavar="URL",
        help="page that the alerts link to (default: %(default)s)",
    )  # fmt: skip
    alerts.set_defaults(run=lazy("metrics", "run_alerts"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``allot metrics`` and ``allot run exporter`` share."""
    add_catalog(parser, "none, so no costs")
    parser.add_argument("--per-claim", action="store_true", help="add cost metrics with one series per claim")
    add_renamed(
        parser, "--max-series", "--most-series", type=int, default=50_000, metavar="N",
        help="maximum number of series per metric; further series are dropped (default: %(default)s)",
    )  # fmt: skip


def _add_output_dir(parser: argparse.ArgumentParser) -> None:
    directory = parser.add_mutually_exclusive_group(required=True)  # one of both names; an option alone cannot be
    add_renamed(
        directory, "--output-dir", "--directory", short="-d", metavar="DIR",
        help="directory to write to; created if it does not exist",
    )  # fmt: skip
