"""The arguments of ``allot autoscale``, and those of ``allot up`` that have it run in a lab."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.plan import NODE_CLASS, add_limits
from allotment.cli.arguments.shared_options import Commands, add_gates, add_release, add_way, lazy

PROVIDERS: Final = ("simulated", "karpenter")
CONSOLIDATIONS: Final = ("never", "empty", "cheaper")

_AUTOSCALE: Final = """\
Machines for pods that wait, and back again: watches a cluster, plans the
cheapest machines whose devices satisfy the claims, orders them, waits for node
and slices, tells the scheduler which pod was meant for which node, and gives
back what nobody uses. Ctrl-C ends it; what was ordered stays known.

  allot autoscale --provider karpenter --catalog aws --dry-run
                                 propose only, as events and a report
  allot autoscale --provider karpenter --catalog aws --budget 30
                                 NodeClaims for at most 30 USD/h
  allot autoscale --provider simulated --catalog aws,gcp
                                 nodes of a lab that runs
  allot up --autoscale --catalog aws,gcp
                                 a lab that does so by itself
"""
_MORE: Final = """\
Simulated machines come after --delay, unless --cloud says otherwise:
  TYPE[:ZONE]=FAULT with no-capacity, stock:N, refused, slow:SECONDS, fail:10%,
  lost (no node comes), bare (no devices come); TYPE is a pattern: aws/g4dn.*
"""
#: The ConfigMap of NVIDIA's MIG manager.
MIG_CONFIG: Final = "gpu-operator/allotment-mig-parted-config"
_MIG_CONFIG: Final = "ConfigMap of the MIG manager, to which layouts are added before nodes (%(default)s; none: no)"
_CLOUD: Final = "what a simulated cloud does wrong: aws/g5.xlarge=no-capacity, *=slow:600, *=fail:10%%"
_CONSOLIDATE: Final = "empty: give back nodes that nobody uses; cheaper: move pods, too (%(default)s); or never"
_DISRUPT: Final = "how many of its machines may go at once, a number or a share (%(default)s)"
_SECONDS: Final = "time to look for something cheaper, for each plan (%(default)s)"
_ELECT: Final = "run beside others of its kind, of which one leads (a Lease)"


def add_autoscale(commands: Commands) -> None:
    """``autoscale``."""
    parser = commands.add_parser(
        "autoscale", help="machines for what waits in a cluster, and back again", description=_AUTOSCALE, epilog=_MORE,
    )  # fmt: skip
    parser.set_defaults(run=lazy("autoscale"))
    add_way(parser)
    add_release(parser, "as it says")
    add_gates(parser)
    parser.add_argument("--once", action="store_true", help="plan and order once for what waits now, and end")
    parser.add_argument("--elect", action="store_true", help=_ELECT)
    add_scaling(parser)


def add_scaling(parser: argparse.ArgumentParser) -> None:
    """What is bought, by whom and when."""
    parser.add_argument("--dry-run", action="store_true", help="only propose, as events and a report")
    parser.add_argument(
        "--namespace", default="kube-system", metavar="NAME", help="of its orders, its report, its Lease (%(default)s)"
    )

    add_limits(parser)
    bought = parser.add_argument_group("who brings the machines")
    bought.add_argument("--provider", choices=PROVIDERS, required=True, help="simulated: a lab's cloud")
    add_karpenter(bought)
    add_cloud(bought)

    times = parser.add_argument_group("when")
    times.add_argument("--seconds", type=float, default=5.0, metavar="N", help=_SECONDS)
    times.add_argument("--idle", default="1s", metavar="TIME", help="plan when no pod has come for so long (1s)")
    times.add_argument("--longest", default="10s", metavar="TIME", help="but so long after the first at most (10s)")
    times.add_argument(
        "--registration", default="15m", metavar="TIME", help="give back what has no node with its slices by then (15m)"
    )
    add_consolidation(times)


def add_karpenter(parser: argparse._ActionsContainer) -> None:
    """What NodeClaims and MIG layouts need."""
    parser.add_argument("--node-class", action="append", default=[], metavar="CLASS", help=NODE_CLASS)
    parser.add_argument("--mig-config", default=MIG_CONFIG, metavar="NAMESPACE/NAME", help=_MIG_CONFIG)


def add_cloud(parser: argparse._ActionsContainer) -> None:
    """How a simulated cloud is."""
    parser.add_argument("--cloud", action="append", nargs="+", default=[], metavar="FAULT", help=_CLOUD)
    parser.add_argument("--delay", default="2s", metavar="TIME", help="until a simulated machine is there (2s)")


def add_consolidation(parser: argparse._ActionsContainer) -> None:
    """When machines go."""
    parser.add_argument("--consolidate", choices=CONSOLIDATIONS, default="empty", help=_CONSOLIDATE)
    parser.add_argument(
        "--consolidate-after", default="1m", metavar="TIME", help="whose pods have not changed for so long (1m)"
    )
    parser.add_argument("--disrupt", default="10%", metavar="N", help=_DISRUPT.replace("%(default)s", "10%%"))
