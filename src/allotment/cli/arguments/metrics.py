"""The arguments of ``allot metrics``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.shared_options import Commands, add_catalog, add_inputs, add_output, lazy

_METRICS: Final = """\
The metrics of devices, claims and pods as `allot run exporter` serves them:
once, as text, of a cluster that runs, of a snapshot or of hardware.

  allot metrics                           of the cluster of your context
  allot metrics --cluster snapshot.yaml   of a snapshot
  allot metrics --catalog aws             and what nodes and claims cost
  allot metrics list                      what each metric is
  allot metrics dashboards -d FOLDER      for Grafana
  allot metrics alerts -d FOLDER          for Prometheus and its operator
"""


def add_metrics(commands: Commands) -> None:
    """``metrics`` and its commands."""
    metrics = commands.add_parser(
        "metrics", help="devices, claims, waits and costs as Prometheus reads them; dashboards, alerts",
        description=_METRICS,
    )  # fmt: skip
    add_inputs(metrics)
    add_options(metrics)
    metrics.set_defaults(run=lazy("metrics"))
    inner = metrics.add_subparsers(title="commands", metavar="COMMAND")

    known = inner.add_parser("list", help="name, labels, what it says and what bounds its series")
    add_output(known, ("wide", "json", "yaml"))
    known.set_defaults(run=lazy("metrics", "run_list"))

    dashboards = inner.add_parser("dashboards", help="write Grafana's dashboards")
    dashboards.add_argument("-d", "--directory", required=True, metavar="FOLDER", help="where to; made if need be")
    dashboards.set_defaults(run=lazy("metrics", "run_dashboards"))

    alerts = inner.add_parser("alerts", help="write alerting rules: a file for Prometheus, an object for its operator")
    alerts.add_argument("-d", "--directory", required=True, metavar="FOLDER", help="where to; made if need be")
    alerts.add_argument(
        "--runbooks", default="docs/metrics.md", metavar="URL", help="the page that says what to do (%(default)s)"
    )
    alerts.set_defaults(run=lazy("metrics", "run_alerts"))


def add_options(parser: argparse.ArgumentParser) -> None:
    """What is measured, for ``allot metrics`` and ``allot run exporter``."""
    add_catalog(parser, "none, and no costs")
    parser.add_argument("--per-claim", action="store_true", help="what each claim costs: a series for each")
    parser.add_argument(
        "--most-series", type=int, default=50_000, metavar="N", help="of one metric; more are dropped (%(default)s)"
    )
