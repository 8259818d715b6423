"""The arguments of ``allot run``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.autoscale import add_scaling
from allotment.cli.arguments.driver import add_node
from allotment.cli.arguments.metrics import add_options
from allotment.cli.arguments.shared_options import (
    Commands,
    add_connection,
    add_feature_gates,
    add_kube_version,
    add_renamed,
    lazy,
)
from allotment.cli.arguments.web import add_page

_RUN: Final = """\
Run a component of Allotment in a cluster, with the probes, metrics, leader
election and logs of Kubernetes' own components. In a pod, it uses the service
account of the pod.

  allot run scheduler                      schedule pods with schedulerName:
                                           allotment-scheduler
  allot run claims                         replace kube-controller-manager's
                                           resourceclaim-controller
  allot run annotator                      explain why kube-scheduler's pods are
                                           pending
  allot run exporter                       export device metrics to Prometheus
  allot run driver nvidia                  run the DRA driver of this node
  allot run web                            serve the page of allot web to people
                                           with a token for the cluster
"""
_SUMMARIES: Final = {
    "scheduler": "assign nodes and devices to the pods whose schedulerName selects this scheduler",
    "claims": "create the claims of pods from templates, and release unused claims",
    "taints": "evict pods from devices with NoExecute taints",
    "annotator": "create events that explain why pods of any scheduler are waiting for devices",
    "autoscaler": "provision machines for pending pods and release idle ones",
    "driver": "publish and prepare the devices of this machine",
    "exporter": "export metrics of devices, claims and pending pods",
    "web": "serve the page of allot web, with the permissions of each visitor",
}
_LED: Final = ("scheduler", "claims", "taints", "annotator", "autoscaler")
_HEALTH: Final = "address for probes: /livez, /readyz, /healthz (default: not served)"
_METRICS: Final = (
    "address for /metrics; TLS and an authorized token are required except on loopback (default: not served)"
)
_CERTIFICATE: Final = "certificate for /metrics and for the page of web (PEM); reloaded on change"
_BIND_DELAY: Final = (
    "delay before a pod is bound, to detect conflicts with other schedulers that use the same devices; 0s if there are"
    " none (default: adaptive, and only while other schedulers are active)"
)
_OTLP_ENDPOINT: Final = "OTLP/HTTP endpoint for OpenTelemetry traces: http://host:4318"


def add_run(commands: Commands) -> None:
    """Add ``run`` and all components."""
    run = commands.add_parser(
        "run", help="run a component of Allotment: scheduler, controllers, driver, …", description=_RUN,
    )  # fmt: skip
    run.set_defaults(help_of=run, incomplete=True)
    inner = run.add_subparsers(title="components", metavar="COMPONENT")
    for name, summary in _SUMMARIES.items():
        parser = inner.add_parser(name, help=summary)
        parser.set_defaults(run=lazy("run"), component=name)
        if name == "scheduler":
            parser.add_argument(
                "--scheduler-name", default="allotment-scheduler", metavar="NAME", help="schedulerName of the pods"
                " to schedule; default-scheduler: replace kube-scheduler (default: %(default)s)",
            )  # fmt: skip
            add_renamed(parser, "--bind-delay", "--settle", metavar="DURATION", help=_BIND_DELAY)
        elif name == "autoscaler":
            add_scaling(parser)
        elif name == "driver":
            add_node(parser)
        elif name == "exporter":
            add_options(parser)
        elif name == "web":
            add_page(parser)
        _add_component(parser, led=name in _LED)


def _add_component(parser: argparse.ArgumentParser, *, led: bool) -> None:
    cluster = parser.add_argument_group("cluster")
    add_connection(cluster)
    add_kube_version(cluster, "the cluster's version")
    add_feature_gates(cluster)
    if led:
        _add_leader_election(parser.add_argument_group("leader election"))
    operation = parser.add_argument_group("observability and shutdown")
    operation.add_argument("--health-bind-address", metavar="HOST:PORT", help=_HEALTH)
    operation.add_argument("--metrics-bind-address", metavar="HOST:PORT", help=_METRICS)
    operation.add_argument("--tls-cert-file", metavar="FILE", help=_CERTIFICATE)
    operation.add_argument("--tls-private-key-file", metavar="FILE", help="private key of that certificate (PEM)")
    operation.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="format of log lines (default: %(default)s)"
    )
    operation.add_argument("-v", "--verbose", action="store_true", help="write more detailed logs")
    add_renamed(operation, "--otlp-endpoint", "--traces", default="", metavar="URL", help=_OTLP_ENDPOINT)
    operation.add_argument(
        "--stop-timeout", default="10s", metavar="DURATION",
        help="maximum time to finish work in progress at shutdown (default: %(default)s)",
    )  # fmt: skip


def _add_leader_election(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--leader-elect",
        action="store_true",
        help="allow several replicas: the active one is chosen by leader election (a Lease)",
    )
    group.add_argument(
        "--lease-namespace",
        metavar="NAME",
        help="namespace of the Lease (default: the pod's namespace, or kube-system)",
    )
    group.add_argument(
        "--lease-name", default="", metavar="NAME", help="name of the Lease (default: allotment-COMPONENT)"
    )
    group.add_argument(
        "--lease-duration", default="15s", metavar="DURATION",
        help="time after which another replica takes over a Lease that has not been renewed (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--renew-deadline", default="10s", metavar="DURATION",
        help="time after which a leader that cannot renew the Lease stops leading (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--retry-period",
        default="2s",
        metavar="DURATION",
        help="time between attempts to acquire or renew the Lease (default: %(default)s)",
    )
