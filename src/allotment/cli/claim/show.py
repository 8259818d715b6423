"""``allot claim show``: describes claims and templates."""

from __future__ import annotations

from argparse import Namespace

from allotment.api.releases import features
from allotment.cli.check.files import read_files
from allotment.cli.output.console import folded, open_screen
from allotment.errors import InputError, InvalidManifests
from allotment.tools.claims.sentences import claim_sentences


def run(arguments: Namespace) -> int:
    """Print a sentence for each claim and template."""
    screen = open_screen()
    known = features(arguments.kube_version, arguments.feature_gates)
    files = read_files(arguments.paths, lambda file: False)
    if files.problems:
        raise InvalidManifests(files.problems, files.sources.get)
    found = tuple(claim_sentences(files.documents, known, arguments.namespace or "default"))
    if not found:
        raise InputError("the files contain no ResourceClaim or ResourceClaimTemplate", "allot claim writes one")
    if arguments.output == "json":
        screen.data([{"kind": item.kind, "name": item.name, "sentence": item.sentence} for item in found], "json")
        return 0
    for item in found:
        for line in folded(f"{item.kind} {item.name}: {item.sentence}", screen.width):
            screen.line(line)
    return 0
