"""``allot catalog slices`` and ``export``: instance types as Kubernetes objects, for a cluster or an autoscaler."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from allotment.api.plans.catalog import read_catalog_files
from allotment.api.plans.instance_types import find_type
from allotment.cli.catalog.selection import by_reason, filter_of
from allotment.cli.inputs.catalogs import report_problems
from allotment.cli.output.console import folded, open_screen, width_of
from allotment.model.serialization import to_json, to_yaml
from allotment.model.trees import Tree
from allotment.reference.instance_type_objects import export_types, slices_of_type


def run_slices(arguments: Namespace) -> int:
    """Print the ResourceSlices that the driver on a node of a type publishes."""
    catalog = read_catalog_files(arguments.catalogs)
    found = slices_of_type(
        find_type(catalog.types, arguments.type), arguments.mode, arguments.node_name or "", arguments.zone,
        spot=arguments.spot, everything=arguments.all, kube=arguments.kube_version,
    )  # fmt: skip
    _print(found.objects, arguments.output)
    if found.placeholders:
        names = ", ".join(found.placeholders)
        _print_note(f"These values are placeholders, because they are known only when the node runs: {names}.")
    return report_problems(catalog)


def run_export(arguments: Namespace) -> int:
    """Print types as objects for another autoscaler, and report those that are excluded."""
    catalog = read_catalog_files(arguments.catalogs)
    found = export_types(
        arguments.target, filter_of(arguments).select(catalog.types), spot=arguments.spot, mode=arguments.mode,
        nodes=arguments.nodes, node_class=arguments.node_class or "", kube=arguments.kube_version,
    )  # fmt: skip
    if found.excluded:
        _print_note("Excluded:")
    for line in by_reason(found.excluded):
        _print_note(line, "  ")
    _print(found.required(), arguments.output)
    return report_problems(catalog)


def _print(documents: Sequence[Tree], form: str | None) -> None:
    out = open_screen().out
    if form == "json":
        out.write(to_json({"apiVersion": "v1", "kind": "List", "items": documents}) + "\n")
    else:
        out.write(to_yaml(documents))


def _print_note(text: str, indent: str = "") -> None:
    """Print a note on standard error, so that a pipe does not read it as an object."""
    sys.stderr.write("".join(f"{line}\n" for line in folded(text, width_of(sys.stderr), indent)))
