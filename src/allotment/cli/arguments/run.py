"""The arguments of ``allot run``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.autoscale import add_scaling
from allotment.cli.arguments.driver import add_node
from allotment.cli.arguments.metrics import add_options
from allotment.cli.arguments.shared_options import Commands, add_gates, add_release, add_way, lazy

_RUN: Final = """\
Allotment's parts as components of a cluster: with probes, metrics, leader
election and logs, as Kubernetes' own have them. In a pod they speak as its
service account.

  allot run scheduler                      pods with schedulerName:
                                           allotment-scheduler
  allot run claims                         in place of kube-controller-manager's
                                           resourceclaim-controller
  allot run annotator                      why kube-scheduler's pods wait
  allot run exporter                       metrics of devices, for Prometheus
  allot run driver nvidia                  the driver of this node
"""
_SUMMARIES: Final = {
    "scheduler": "nodes and devices for the pods that name it",
    "claims": "pods' claims from templates, and claims freed when nobody uses them",
    "taints": "pods evicted from devices that are tainted NoExecute",
    "annotator": "why pods wait for devices, as events, whoever schedules them",
    "autoscaler": "machines for pods that wait, and back again",
    "driver": "this machine's devices, published and prepared",
    "exporter": "metrics of devices, claims and pods that wait for them",
}
_LED: Final = ("scheduler", "claims", "taints", "annotator", "autoscaler")
_HEALTH: Final = "where probes are answered: /livez, /readyz, /healthz (default: nowhere)"
_METRICS: Final = "where /metrics is served; but on loopback over TLS and to allowed tokens (default: nowhere)"
_SETTLE: Final = (
    "how long a decision settles before its pod is bound, beside other schedulers on the same devices; 0s: there are"
    " none (default: while others are seen at work, as long as they seem to need)"
)
_TRACES: Final = "send work as OpenTelemetry spans, over OTLP/HTTP: http://host:4318"


def add_run(commands: Commands) -> None:
    """``run`` and all components."""
    run = commands.add_parser(
        "run", help="scheduler, controllers, driver: parts of ours in a cluster", description=_RUN,
    )  # fmt: skip
    run.set_defaults(help_of=run, incomplete=True)
    inner = run.add_subparsers(title="components", metavar="COMPONENT")
    for name, summary in _SUMMARIES.items():
        parser = inner.add_parser(name, help=summary)
        parser.set_defaults(run=lazy("run"), component=name)
        if name == "scheduler":
            parser.add_argument(
                "--scheduler-name", default="allotment-scheduler", metavar="NAME", help="schedulerName of its pods"
                " (%(default)s); default-scheduler: in place of kube-scheduler",
            )  # fmt: skip
            parser.add_argument("--settle", metavar="TIME", help=_SETTLE)
        elif name == "autoscaler":
            add_scaling(parser)
        elif name == "driver":
            add_node(parser)
        elif name == "exporter":
            add_options(parser)
        _add_component(parser, led=name in _LED)


def _add_component(parser: argparse.ArgumentParser, *, led: bool) -> None:
    cluster = parser.add_argument_group("the cluster")
    add_way(cluster)
    add_release(cluster, "as it says")
    add_gates(cluster)
    if led:
        _add_leading(parser.add_argument_group("several copies, of which one leads"))
    seen = parser.add_argument_group("how it is watched")
    seen.add_argument("--health-bind-address", metavar="HOST:PORT", help=_HEALTH)
    seen.add_argument("--metrics-bind-address", metavar="HOST:PORT", help=_METRICS)
    seen.add_argument("--tls-cert-file", metavar="FILE", help="certificate of /metrics, PEM; read again if it changes")
    seen.add_argument("--tls-private-key-file", metavar="FILE", help="its key")
    seen.add_argument("--log-format", choices=("text", "json"), default="text", help="lines of text, or JSON")
    seen.add_argument("-v", "--verbose", action="store_true", help="log more")
    seen.add_argument("--traces", default="", metavar="URL", help=_TRACES)
    seen.add_argument(
        "--stop-timeout", default="10s", metavar="TIME", help="how long work under way has to end (%(default)s)"
    )


def _add_leading(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--leader-elect", action="store_true", help="work only while leading, by a Lease")
    group.add_argument("--lease-namespace", metavar="NAME", help="of the Lease (default: the pod's, or kube-system)")
    group.add_argument("--lease-name", default="", metavar="NAME", help="(default: allotment-COMPONENT)")
    group.add_argument(
        "--lease-duration", default="15s", metavar="TIME", help="when others may take an abandoned Lease (%(default)s)"
    )
    group.add_argument(
        "--renew-deadline", default="10s", metavar="TIME", help="when a leader that cannot renew gives up (%(default)s)"
    )
    group.add_argument("--retry-period", default="2s", metavar="TIME", help="between tries (%(default)s)")
