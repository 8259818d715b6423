"""The arguments of ``allot autoscale`` and of the autoscaler options of ``allot up``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.plan import NODE_CLASS, add_limits
from allotment.cli.arguments.shared_options import (
    Commands,
    add_connection,
    add_feature_gates,
    add_kube_version,
    add_renamed,
    lazy,
)

PROVIDERS: Final = ("simulated", "karpenter")
CONSOLIDATIONS: Final = ("never", "empty", "cheaper")

_AUTOSCALE: Final = """\
Provision machines for pending pods and release idle ones. Watches a cluster,
plans the cheapest machines whose devices satisfy the claims, orders them, waits
for their nodes and slices, tells the scheduler which node is planned for each
pod, and deletes unused machines. Ctrl-C stops it; its orders are kept.

  allot autoscale --provider karpenter --catalog aws --dry-run
                                 order nothing; publish proposals as events
                                 and a report
  allot autoscale --provider karpenter --catalog aws --budget 30
                                 create NodeClaims for at most 30 USD/h
  allot autoscale --provider simulated --catalog aws,gcp
                                 add simulated nodes to a running lab
  allot up --autoscale --catalog aws,gcp
                                 start a lab with an autoscaler
"""
_MORE: Final = """\
Simulated machines register after --provisioning-delay, unless --cloud-fault
injects a fault: TYPE[:ZONE]=FAULT, where FAULT is no-capacity, stock:N,
refused, slow:SECONDS, fail:10%, lost (no node registers) or bare (no devices
are published). TYPE is a pattern: aws/g4dn.*
"""
#: The ConfigMap of NVIDIA's MIG manager.
MIG_CONFIG: Final = "gpu-operator/allotment-mig-parted-config"
_MIG_CONFIG: Final = (
    "ConfigMap that NVIDIA's MIG manager reads; MIG layouts are added to it before nodes are ordered; none: use no"
    " ConfigMap (default: %(default)s)"
)
_CLOUD_FAULT: Final = "faults to inject into the simulated cloud: aws/g5.xlarge=no-capacity, *=slow:600, *=fail:10%%"
_CONSOLIDATE: Final = (
    "empty: delete nodes without pods; cheaper: also move pods to cheaper nodes; never: keep all nodes"
    " (default: %(default)s)"
)
_DISRUPTION_BUDGET: Final = (
    "maximum number or percentage of the autoscaler's nodes to disrupt at the same time (default: 10%%)"
)
_TIME_LIMIT: Final = "maximum search time for each plan, in seconds (default: %(default)s)"
_LEADER_ELECT: Final = "allow several replicas: the active one is chosen by leader election (a Lease)"


def add_autoscale(commands: Commands) -> None:
    """Add ``autoscale``."""
    parser = commands.add_parser(
        "autoscale", help="provision machines for pending pods and release idle ones", description=_AUTOSCALE,
        epilog=_MORE,
    )  # fmt: skip
    parser.set_defaults(run=lazy("autoscale"))
    add_connection(parser)
    add_kube_version(parser, "the cluster's version")
    add_feature_gates(parser)
    parser.add_argument(
        "--once", action="store_true", help="plan and order machines once for the pending pods, and exit"
    )
    add_renamed(parser, "--leader-elect", "--elect", action="store_true", help=_LEADER_ELECT)
    add_scaling(parser)


def add_scaling(parser: argparse.ArgumentParser) -> None:
    """Add limits, provider, batching and consolidation."""
    parser.add_argument(
        "--dry-run", action="store_true", help="order nothing; publish proposals as events and a report"
    )
    parser.add_argument(
        "--namespace", default="kube-system", metavar="NAME",
        help="namespace of the orders, the report and the Lease (default: %(default)s)",
    )  # fmt: skip

    add_limits(parser)
    provider = parser.add_argument_group("machine provider")
    provider.add_argument("--provider", choices=PROVIDERS, required=True, help="simulated: simulated machines in a lab")
    add_karpenter(provider)
    add_simulated_cloud(provider)

    timing = parser.add_argument_group("timing")
    add_renamed(timing, "--time-limit", "--seconds", type=float, default=5.0, metavar="SECONDS", help=_TIME_LIMIT)
    add_renamed(
        timing, "--batch-idle-duration", "--idle", default="1s", metavar="DURATION",
        help="plan after this long without new pods (default: %(default)s)",
    )  # fmt: skip
    add_renamed(
        timing, "--batch-max-duration", "--longest", default="10s", metavar="DURATION",
        help="maximum batching time after the first pod (default: %(default)s)",
    )  # fmt: skip
    add_renamed(
        timing, "--registration-timeout", "--registration", default="15m", metavar="DURATION",
        help="delete machines whose node and slices have not appeared after this long (default: %(default)s)",
    )  # fmt: skip
    add_consolidation(timing)


def add_karpenter(parser: argparse._ActionsContainer) -> None:
    """Add the options of NodeClaims and MIG layouts."""
    parser.add_argument("--node-class", action="append", default=[], metavar="CLASS", help=NODE_CLASS)
    parser.add_argument("--mig-config", default=MIG_CONFIG, metavar="NAMESPACE/NAME", help=_MIG_CONFIG)


def add_simulated_cloud(parser: argparse._ActionsContainer) -> None:
    """Add delay and faults of a simulated cloud."""
    add_renamed(
        parser, "--cloud-fault", "--cloud", action="append", nargs="+", default=[], metavar="FAULT", help=_CLOUD_FAULT
    )
    add_renamed(
        parser, "--provisioning-delay", "--delay", default="2s", metavar="DURATION",
        help="provisioning delay of simulated machines (default: %(default)s)",
    )  # fmt: skip


def add_consolidation(parser: argparse._ActionsContainer) -> None:
    """Add when and how many machines are removed."""
    parser.add_argument("--consolidate", choices=CONSOLIDATIONS, default="empty", help=_CONSOLIDATE)
    parser.add_argument(
        "--consolidate-after", default="1m", metavar="DURATION",
        help="consolidate nodes whose pods have been stable for this long (default: %(default)s)",
    )  # fmt: skip
    add_renamed(parser, "--disruption-budget", "--disrupt", default="10%", metavar="NODES", help=_DISRUPTION_BUDGET)
