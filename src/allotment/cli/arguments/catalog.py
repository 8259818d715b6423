"""The arguments of ``allot catalog``."""

from __future__ import annotations

import argparse
from typing import Any, Final

from allotment.cli.arguments.shared_options import Commands, add_fixed_kube_version, add_output, add_renamed, lazy

EXPORTS: Final = ("karpenter", "cluster-autoscaler", "kwok")

_CATALOG: Final = """\
Instance types of cloud providers: prices, resources, and the ResourceSlices
that their drivers publish.

  allot catalog                                list all types, cheapest first
  allot catalog list aws --memory '>=24Gi'     filter by provider, GPU memory, …
  allot catalog show aws/p5.48xlarge           show properties and sources
  allot catalog slices aws/p4d.24xlarge --mode static-mig=1g.5gb:7
  allot catalog export karpenter aws/g5        export for another autoscaler

Prices are the list prices of one region on the date shown with them. To add
types or prices use --catalog FILE, with the columns of
`allot catalog list -o csv`.
"""
_NODE_CLASS: Final = 'karpenter: node class, as GROUP/KIND/NAME (default: the provider\'s node class named "default")'
_TYPE: Final = "instance type: aws/p5.48xlarge; the provider may be omitted if the name is unique"


def add_catalog(commands: Commands) -> None:
    """Add ``catalog`` and its subcommands."""
    catalog = commands.add_parser(
        "catalog", help="list cloud instance types with prices and their ResourceSlices",
        description=_CATALOG,
    )  # fmt: skip
    catalog.set_defaults(instead_of_commands="allot catalog list {}")
    inner = catalog.add_subparsers(title="commands", metavar="COMMAND")
    _add_list(catalog, top=True)
    _add_list(inner.add_parser("list", help="list types and prices, cheapest first"))

    show = inner.add_parser("show", help="show the properties of one type, with their sources")
    show.add_argument("type", metavar="TYPE", help=_TYPE)
    _add_catalog_files(show)
    add_output(show, ("json", "yaml"))
    show.set_defaults(run=lazy("catalog.command", "run_show"))

    slices = inner.add_parser("slices", help="print the ResourceSlices that a node of a type will publish")
    slices.add_argument("type", metavar="TYPE", help=_TYPE)
    slices.add_argument(
        "--mode", default="", help="GPU mode: static-mig=1g.5gb:7, dynamic-mig, shared, … (default: whole GPUs)"
    )
    add_renamed(slices, "--node-name", "--node", metavar="NAME", help="node name (default: the name of the type)")
    slices.add_argument("--zone", default="", help="zone of the node (default: the first zone of the region)")
    slices.add_argument("--spot", action="store_true", help="assume a spot machine")
    slices.add_argument("--all", action="store_true", help="also print the Node object")
    _add_catalog_files(slices)
    add_fixed_kube_version(slices)
    add_output(slices, ("yaml", "json"))
    slices.set_defaults(run=lazy("catalog.manifests", "run_slices"))

    export = inner.add_parser("export", help="export types as objects for Karpenter, cluster-autoscaler or kwok")
    export.add_argument("target", choices=EXPORTS, metavar="FOR", help=", ".join(EXPORTS))
    _add_patterns(export)
    _add_filters(export)
    export.add_argument("--mode", default="", help="GPU mode; not for karpenter (default: whole GPUs)")
    export.add_argument(
        "--nodes", type=int, default=1, metavar="N", help="kwok: number of nodes of each type (default: %(default)s)"
    )
    export.add_argument("--node-class", metavar="CLASS", help=_NODE_CLASS)
    add_fixed_kube_version(export)
    add_output(export, ("yaml", "json"))
    export.set_defaults(run=lazy("catalog.manifests", "run_export"))


def _add_list(parser: argparse.ArgumentParser, *, top: bool = False) -> None:
    """Add the options of ``list``.

    ``top``: they are those of ``allot catalog`` itself; the subcommands then do not overwrite its values with defaults.
    """
    unset = None if top else argparse.SUPPRESS
    if not top:
        _add_patterns(parser)
    _add_filters(parser, top=top)
    help_of_all = "include types that a plan cannot use, with the reason"
    parser.add_argument("--all", action="store_true", default=False if top else argparse.SUPPRESS, help=help_of_all)
    formats = ("wide", "json", "yaml", "csv")
    help_of_formats = "output format: wide, json, yaml or csv"
    parser.add_argument("-o", "--output", choices=formats, metavar="FORMAT", default=unset, help=help_of_formats)
    parser.set_defaults(run=lazy("catalog.command", "run_list"), **({"patterns": []} if top else {}))


def _add_patterns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "patterns", nargs="*", default=[], metavar="PATTERN", help="part of the name: aws, g5.xlarge, 'gcp/a2-*'"
    )


def _add_filters(parser: argparse.ArgumentParser, *, top: bool = False) -> None:
    def unless_given(value: Any) -> Any:
        return value if top else argparse.SUPPRESS

    none, no, empty = unless_given(None), unless_given(False), unless_given([])
    filters = parser.add_argument_group("filters")
    filters.add_argument("--provider", action="append", default=empty, metavar="NAMES", help="cloud providers: aws,gcp")
    filters.add_argument("--gpu", metavar="MODEL", default=none, help="GPU model: a100, a100-40gb, l4; none: no GPU")
    filters.add_argument("--gpus", type=int, metavar="N", default=none, help="minimum number of GPUs")
    filters.add_argument(
        "--memory", metavar="'>=24Gi'", default=none, help="memory of each GPU, as its driver reports it"
    )
    filters.add_argument("--mig", action="store_true", default=no, help="only types whose GPUs support MIG")
    filters.add_argument("--max-price", metavar="USD", default=none, help="maximum price per hour")
    filters.add_argument(
        "--spot", action="store_true", default=no, help="only types with a spot price, sorted by that price"
    )
    _add_catalog_files(parser, empty)


def _add_catalog_files(parser: argparse.ArgumentParser, unset: Any = argparse.SUPPRESS) -> None:
    parser.add_argument(
        "--catalog", action="append", default=unset, metavar="FILE", dest="catalogs",
        help="CSV file with additional prices or types",
    )  # fmt: skip
