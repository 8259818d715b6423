"""``allot claim show``: describes claims and templates."""

from __future__ import annotations

from argparse import Namespace

from allotment.api.claim import describe_claims
from allotment.api.cluster import Cluster
from allotment.cli.inputs.clusters import sources
from allotment.cli.output.console import folded, open_screen


def run(arguments: Namespace) -> int:
    """Print a sentence for each claim and template."""
    screen = open_screen()
    cluster = Cluster(kube=arguments.kube_version, gates=arguments.feature_gates)
    found = describe_claims(*sources(arguments, arguments.paths), cluster=cluster, namespace=arguments.namespace or "")
    if arguments.output == "json":
        screen.data([item.to_dict() for item in found], "json")
        return 0
    for item in found:
        for line in folded(f"{item.kind} {item.name}: {item.sentence}", screen.width):
            screen.line(line)
    return 0
