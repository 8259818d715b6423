"""The arguments of ``allot plan``."""

from __future__ import annotations

import argparse
from typing import Final

from allotment.cli.arguments.shared_options import (
    Commands,
    add_catalog,
    add_gates,
    add_output,
    add_release,
    add_way,
    lazy,
)

FORMATS: Final = ("wide", "json", "yaml", "machines", "nodeclaims")
CAPACITY: Final = ("on-demand", "spot", "cheapest")

_PLAN: Final = """\
The cheapest machines for everything that waits: what to buy, which pod gets
which device of it, how far from the cheapest possible that is, and why each
other type was not taken. Nothing is bought.

  allot plan app.yaml                        with the packaged prices
  allot plan app.yaml --catalog aws,gcp      of these providers only
  allot plan app.yaml --fleet t4:2           beside two nodes that are there
  allot plan --context NAME                  what waits in a cluster that runs
  allot plan app.yaml --why                  every type, and what is in its way
  allot plan app.yaml --picture plan.svg     machines, devices and pods, drawn
"""
_MORE: Final = """\
Exit codes: 0 all is served, 1 something is not (or rows of the catalogue are
left out), 2 bad input, 3 an error of Allotment's own.
"""
_FLEET: Final = "nodes that are there: [NAME=][GPUSx]HARDWARE[:NODES][/MODE],… (allot fleet list)"
#: What people type who know other tools.
_INSTEAD: Final = {
    "--provider": "say --catalog aws,gcp",
    "--gpu": "the claim says which GPU; --types 'aws/g6.*' says which machines",
    "--instance-types": "say --types 'aws/g6.*'",
    "--exclude": "say --without 'aws/p5*'",
    "--region": "say --zones us-east-1a,us-east-1b",
    "--spot": "say --capacity spot, or --capacity cheapest",
    "--max-price": "--budget is for all machines together; --types says which",
    "--max-nodes": "say --machines N",
    "--timeout": "say --seconds N",
    "--workload": "say --only deployment/NAME",
    "--png": "say --picture plan.png",
    "--svg": "say --picture plan.svg",
    "--json": "say -o json",
    "--yaml": "say -o yaml",
    "--wide": "say -o wide",
    "--explain": "say --why",
    "--dry-run": "leave it out: nothing is ever bought here",
}
_INSTEAD_TOO: Final = {"--providers": "--provider", "--instance-type": "--instance-types", "--regions": "--region"}
NODE_CLASS: Final = "of NodeClaims: [PROVIDER=]GROUP/KIND/NAME (default: the cloud's own, named default)"
_MODES: Final = "modes that GPUs may be put into: static-mig, dynamic-mig, … (default: those that claims ask for)"


def add_plan(commands: Commands) -> None:
    """``plan``."""
    plan = commands.add_parser(
        "plan", help="the cheapest machines for what waits, and why no others", description=_PLAN, epilog=_MORE,
    )  # fmt: skip
    plan.add_argument("paths", nargs="*", metavar="FILE", help="manifests to plan for: files, folders, -")
    plan.add_argument(
        "-f", "--filename", action="append", nargs="+", default=[], metavar="FILE", dest="files",
        help="the same, in kubectl's spelling",
    )  # fmt: skip
    plan.set_defaults(
        run=lazy("plan.command"), missing="nothing to plan for",
        otherwise="give manifests, a snapshot with --cluster FILE, or run allot up",
        instead={**_INSTEAD, **{other: _INSTEAD[known] for other, known in _INSTEAD_TOO.items()}},
    )  # fmt: skip

    there = plan.add_argument_group("what is there")
    cluster = there.add_mutually_exclusive_group()
    cluster.add_argument(
        "--cluster", action="append", nargs=1, default=[], metavar="FILE", help="a snapshot of the cluster"
    )
    cluster.add_argument("--fleet", action="append", nargs=1, default=[], metavar="SPEC", help=_FLEET)
    add_way(there)
    there.add_argument("-n", "--namespace", metavar="NAME", help="namespace of objects that name none (default)")
    add_release(there)
    add_gates(there)
    there.add_argument("--only", metavar="NAME", help="only for this pod, claim or workload: name or kind/name")

    add_limits(plan)

    search = plan.add_argument_group("how long to look")
    search.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help="time for the search (default: 1 to 10, by size; 0: no concessions either)",
    )
    search.add_argument("--seed", type=int, default=0, metavar="N", help="of the search (%(default)s)")
    search.add_argument("--compare", action="store_true", help="what Karpenter's and cluster-autoscaler's rules cost")

    shown = plan.add_argument_group("output")
    add_output(shown, FORMATS)
    shown.add_argument(
        "--why", nargs="?", const="*", metavar="TYPE", help="every type (or these) with what is in its way"
    )
    shown.add_argument("--node-class", action="append", default=[], metavar="CLASS", help=NODE_CLASS)
    shown.add_argument("--picture", metavar="FILE", help="draw the plan: .svg or .png")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """What may be bought, and how much of it."""
    bought = parser.add_argument_group("what may be bought")
    add_catalog(bought)
    bought.add_argument("--types", action="append", default=[], metavar="PATTERN", help="only these: aws/g5.*, */p4*")
    bought.add_argument("--without", action="append", default=[], metavar="PATTERN", help="not these")
    bought.add_argument("--zones", action="append", default=[], metavar="ZONE", help="only in these: us-east-1a,…")
    bought.add_argument(
        "--capacity", choices=CAPACITY, default="on-demand", help="on-demand, spot, or what costs less (%(default)s)"
    )
    bought.add_argument("--spot-at-most", metavar="50%", help="with --capacity cheapest: machines that may be spot")
    bought.add_argument("--budget", metavar="USD", help="USD per hour that all of them may cost")
    bought.add_argument("--most", action="append", default=[], metavar="TYPE=N", help="so many at most: aws/p5*=2")
    bought.add_argument("--machines", type=int, metavar="N", help="so many machines at most")
    bought.add_argument("--modes", action="append", default=[], metavar="MODES", help=_MODES)
