"""The arguments of ``allot catalog``."""

from __future__ import annotations

import argparse
from typing import Any, Final

from allotment.cli.arguments.shared_options import Commands, add_output, add_release_unasked, lazy

EXPORTS: Final = ("karpenter", "cluster-autoscaler", "kwok")

_CATALOG: Final = """\
Instance types of clouds: what each costs, what it has for pods, and the
ResourceSlices that its driver will publish once it runs.

  allot catalog                                every type, the cheapest first
  allot catalog list aws --memory '>=24Gi'     by cloud, memory of a GPU, …
  allot catalog show aws/p5.48xlarge           facts, sources, what is unknown
  allot catalog slices aws/p4d.24xlarge --mode static-mig=1g.5gb:7
  allot catalog export karpenter aws/g5        for another autoscaler

Prices are list prices of one region, copied at the date that stands with them.
Your own: --catalog FILE, with the columns of `allot catalog list -o csv`.
"""
_KARPENTER_HELP: Final = "karpenter: the nodes' class, GROUP/KIND/NAME (default: the cloud's own, named default)"


def add_catalog(commands: Commands) -> None:
    """``catalog`` and what it does."""
    catalog = commands.add_parser(
        "catalog", help="instance types of clouds: prices, and what they will publish",
        description=_CATALOG,
    )  # fmt: skip
    catalog.set_defaults(instead_of_commands="allot catalog list {}")
    inner = catalog.add_subparsers(title="commands", metavar="COMMAND")
    _add_list(catalog, top=True)
    _add_list(inner.add_parser("list", help="types and prices, the cheapest first"))

    show = inner.add_parser("show", help="the facts of one type, with their sources")
    show.add_argument("type", metavar="TYPE", help="aws/p5.48xlarge, or without the cloud where one has it")
    _add_own(show)
    add_output(show, ("json", "yaml"))
    show.set_defaults(run=lazy("catalog.command", "run_show"))

    slices = inner.add_parser("slices", help="the ResourceSlices of a node that does not exist yet")
    slices.add_argument("type", metavar="TYPE", help="aws/p4d.24xlarge, or without the cloud where one has it")
    slices.add_argument("--mode", default="", help="static-mig=1g.5gb:7, dynamic-mig, shared, … (default: whole GPUs)")
    slices.add_argument("--node", metavar="NAME", help="name of the node (default: the type's)")
    slices.add_argument("--zone", default="", help="its zone (default: the first of its region)")
    slices.add_argument("--spot", action="store_true", help="a spot machine")
    slices.add_argument("--all", action="store_true", help="the Node, too")
    _add_own(slices)
    add_release_unasked(slices)
    add_output(slices, ("yaml", "json"))
    slices.set_defaults(run=lazy("catalog.manifests", "run_slices"))

    export = inner.add_parser("export", help="types as objects for Karpenter, cluster-autoscaler or kwok")
    export.add_argument("target", choices=EXPORTS, metavar="FOR", help=", ".join(EXPORTS))
    _add_patterns(export)
    _add_filters(export)
    export.add_argument("--mode", default="", help="how the GPUs are published (default: whole); not for karpenter")
    export.add_argument("--nodes", type=int, default=1, metavar="N", help="kwok: so many of each type (%(default)s)")
    export.add_argument("--node-class", metavar="CLASS", help=_KARPENTER_HELP)
    add_release_unasked(export)
    add_output(export, ("yaml", "json"))
    export.set_defaults(run=lazy("catalog.manifests", "run_export"))


def _add_list(parser: argparse.ArgumentParser, *, top: bool = False) -> None:
    """``top``: the options of ``allot catalog`` itself, whose defaults those of its commands leave alone."""
    unset = None if top else argparse.SUPPRESS
    if not top:
        _add_patterns(parser)
    _add_filters(parser, top=top)
    help_of_all = "also types that a plan cannot use, and why"
    parser.add_argument("--all", action="store_true", default=False if top else argparse.SUPPRESS, help=help_of_all)
    forms = ("wide", "json", "yaml", "csv")
    help_of_forms = "output as wide, json, yaml or csv"
    parser.add_argument("-o", "--output", choices=forms, metavar="FORMAT", default=unset, help=help_of_forms)
    parser.set_defaults(run=lazy("catalog.command", "run_list"), **({"patterns": []} if top else {}))


def _add_patterns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "patterns", nargs="*", default=[], metavar="PATTERN", help="in its name: aws, g5.xlarge, 'gcp/a2-*'"
    )


def _add_filters(parser: argparse.ArgumentParser, *, top: bool = False) -> None:
    def unless_given(value: Any) -> Any:
        return value if top else argparse.SUPPRESS

    none, no, empty = unless_given(None), unless_given(False), unless_given([])
    which = parser.add_argument_group("which types")
    which.add_argument("--provider", action="append", default=empty, metavar="NAMES", help="of these clouds: aws,gcp")
    which.add_argument("--gpu", metavar="MODEL", default=none, help="with this GPU: a100, a100-40gb, l4; none: without")
    which.add_argument("--gpus", type=int, metavar="N", default=none, help="with at least N of them")
    which.add_argument("--memory", metavar="'>=24Gi'", default=none, help="each with as much, as its driver counts")
    which.add_argument("--mig", action="store_true", default=no, help="that can be cut by MIG")
    which.add_argument("--max-price", metavar="USD", default=none, help="that cost at most so much an hour")
    which.add_argument("--spot", action="store_true", default=no, help="with a spot price, by which to sort")
    _add_own(parser, empty)


def _add_own(parser: argparse.ArgumentParser, unset: Any = argparse.SUPPRESS) -> None:
    parser.add_argument(
        "--catalog", action="append", default=unset, metavar="FILE", dest="catalogs",
        help="a catalogue of your own on top: CSV, prices or types",
    )  # fmt: skip
