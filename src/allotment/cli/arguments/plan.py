"""The arguments of ``allot plan``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.shared_options import (
    Commands,
    add_catalog,
    add_connection,
    add_feature_gates,
    add_kube_version,
    add_output,
    add_renamed,
    lazy,
)

FORMATS: Final = ("wide", "json", "yaml", "machines", "nodeclaims")
CAPACITY: Final = ("on-demand", "spot", "cheapest")

_PLAN: Final = """\
Plan the cheapest machines for all pending pods: what to order, which devices
each pod gets, how far the cost is from the optimum, and why other types were
rejected. Nothing is ordered.

  allot plan app.yaml                        with the packaged prices
  allot plan app.yaml --catalog aws,gcp      only on these providers
  allot plan app.yaml --fleet t4:2           in addition to two existing nodes
  allot plan --context NAME                  for the pending pods of a cluster
  allot plan app.yaml --why                  show why each type is rejected
  allot plan app.yaml --picture plan.svg     draw machines, devices and pods
"""
_MORE: Final = """\
Exit codes: 0 all pods are placed, 1 some are not (or rows of the catalog are
ignored), 2 invalid input, 3 internal error.
"""
_FLEET: Final = "existing nodes: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (see allot fleet list)"
#: Answers to options of other tools.
_INSTEAD: Final = {
    "--provider": "use --catalog aws,gcp",
    "--gpu": "the claim selects the GPU; --types 'aws/g6.*' selects machines",
    "--instance-types": "use --types 'aws/g6.*'",
    "--exclude": "use --exclude-types 'aws/p5*'",
    "--region": "use --zones us-east-1a,us-east-1b",
    "--spot": "use --capacity-type spot, or --capacity-type cheapest",
    "--max-price": "--budget limits the price of all machines; --types selects types",
    "--max-nodes": "use --max-machines N",
    "--timeout": "use --time-limit SECONDS",
    "--workload": "use --only deployment/NAME",
    "--png": "use --picture plan.png",
    "--svg": "use --picture plan.svg",
    "--json": "use -o json",
    "--yaml": "use -o yaml",
    "--wide": "use -o wide",
    "--explain": "use --why",
    "--dry-run": "omit it: allot plan never orders machines",
}
_INSTEAD_TOO: Final = {"--providers": "--provider", "--instance-type": "--instance-types", "--regions": "--region"}
NODE_CLASS: Final = (
    'node class of NodeClaims: [PROVIDER=]GROUP/KIND/NAME (default: the provider\'s node class named "default")'
)
_MODES: Final = "GPU modes to consider: static-mig, dynamic-mig, … (default: the modes that claims require)"


def add_plan(commands: Commands) -> None:
    """Add ``plan``."""
    plan = commands.add_parser(
        "plan", help="plan the cheapest machines for pending pods", description=_PLAN, epilog=_MORE,
    )  # fmt: skip
    plan.add_argument("paths", nargs="*", metavar="FILE", help="manifests: files, directories, or - for standard input")
    plan.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files",
        help="manifests, as with kubectl",
    )  # fmt: skip
    plan.set_defaults(
        run=lazy("plan.command"), missing="nothing to plan for",
        otherwise="specify manifests, or a snapshot with --cluster FILE, or run allot up",
        instead={**_INSTEAD, **{flag: _INSTEAD[known] for flag, known in _INSTEAD_TOO.items()}},
    )  # fmt: skip

    existing = plan.add_argument_group("existing cluster")
    cluster = existing.add_mutually_exclusive_group()
    cluster.add_argument("--cluster", action="append", nargs=1, default=[], metavar="FILE", help="cluster snapshot")
    cluster.add_argument("--fleet", action="append", nargs=1, default=[], metavar="SPEC", help=_FLEET)
    add_connection(existing)
    existing.add_argument(
        "-n", "--namespace", metavar="NAME", help="namespace of manifests without one (default: default)"
    )
    add_kube_version(existing)
    add_feature_gates(existing)
    existing.add_argument("--only", metavar="NAME", help="plan only for this pod, claim or workload: name or kind/name")

    add_limits(plan)

    search = plan.add_argument_group("search")
    add_renamed(
        search, "--time-limit", "--seconds", type=float, metavar="SECONDS",
        help="search for this time; 0: no search and no relaxations (default: a number of steps, about 1 to 10 s)",
    )  # fmt: skip
    search.add_argument(
        "--seed", type=int, default=0, metavar="N", help="random seed for the search (default: %(default)s)"
    )
    search.add_argument(
        "--compare", action="store_true", help="compare with the cost under Karpenter's and cluster-autoscaler's rules"
    )

    output = plan.add_argument_group("output")
    add_output(output, FORMATS)
    output.add_argument(
        "--why",
        nargs="?",
        const="*",
        metavar="TYPE",
        help="list all types, or those that match, with the reason why each is rejected",
    )
    output.add_argument("--node-class", action="append", default=[], metavar="CLASS", help=NODE_CLASS)
    output.add_argument("--picture", metavar="FILE", help="write a diagram of the plan: .svg or .png")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Add the options that limit types, zones, prices and numbers of machines."""
    limits = parser.add_argument_group("limits on machines")
    add_catalog(limits)
    limits.add_argument(
        "--types", action="append", default=[], metavar="PATTERN", help="allowed types: aws/g5.*, */p4* (default: all)"
    )
    add_renamed(
        limits, "--exclude-types", "--without", action="append", default=[], metavar="PATTERN", help="excluded types"
    )
    limits.add_argument("--zones", action="append", default=[], metavar="ZONE", help="allowed zones: us-east-1a,…")
    add_renamed(
        limits, "--capacity-type", "--capacity", choices=CAPACITY, default="on-demand",
        help="on-demand, spot, or cheapest: whichever is cheaper (default: %(default)s)",
    )  # fmt: skip
    add_renamed(
        limits, "--max-spot", "--spot-at-most", metavar="50%",
        help="with --capacity-type cheapest: maximum share of spot machines",
    )  # fmt: skip
    limits.add_argument("--budget", metavar="USD", help="maximum total price per hour")
    add_renamed(
        limits, "--max-per-type", "--most", action="append", default=[], metavar="TYPE=N",
        help="maximum number of machines of a type: aws/p5*=2",
    )  # fmt: skip
    add_renamed(limits, "--max-machines", "--machines", type=int, metavar="N", help="maximum number of machines")
    limits.add_argument("--modes", action="append", default=[], metavar="MODES", help=_MODES)
