"""``allot explain -o manifests``: the objects of the first remedy with its changes, for ``kubectl replace --force``.

The manifests are made from the objects as the cluster or snapshot has them, because the values that are explained do
not have all fields.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.cluster import Cluster
from allotment.api.clusters.described import SnapshotSource
from allotment.api.next_step import origin_of
from allotment.api.question import Question
from allotment.cli.inputs.clusters import cluster_errors_of, words
from allotment.cli.output.console import folded, print_notes, width_of
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.errors import InputError
from allotment.explanation import Answer, Explanation
from allotment.explanation.manifest_changes import change_in_manifests
from allotment.explanation.next_step import Origin
from allotment.explanation.replacement import REPLACEABLE, Replacement, manager_of, manifests, named, replacement_of
from allotment.model.meta import ObjectKey
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.cluster.remote.kubeconfig import ClusterTarget

_PRINTED, _NOTHING_PRINTED = 0, 1


def check_arguments(arguments: Namespace) -> None:
    """Raise InputError for options that have no meaning with ``-o manifests``."""
    if arguments.object is None:
        raise InputError("-o manifests: requires a name", "allot explain pod/NAME -o manifests")
    if arguments.watch:
        raise InputError("-o manifests: cannot be combined with --watch")
    if "-" in words((*arguments.files, *arguments.cluster)):
        raise InputError("-o manifests: reads its input twice, so it cannot be standard input", "specify a file")


def print_manifests(arguments: Namespace, explanation: Explanation, question: Question) -> int:
    """Print the manifests for the first pod or claim that does not fit.

    Returns 1, with the reason on standard error, if the first remedy does not replace an object.
    """
    answer, found = _first(explanation, origin_of(question))
    if answer is None:
        if waiting := next((each for each in explanation.answers if each.waits), None):
            return _nothing(f"no change of devices helps {waiting.kind} {waiting.name}: {waiting.waits}")
        return _nothing(f"{arguments.object} fits: nothing has to be changed")
    if found is None:
        return _nothing(f"no object can be replaced so that {answer.kind} {answer.name} fits", f"next: {answer.next}")
    trees = _trees(question, found.objects)
    missing = [name for name in found.objects if name not in trees]
    if missing:
        return _nothing(f"{missing[0]} not found")
    for name in found.objects:
        if manager := manager_of(trees[name]):
            return _nothing(f"{name} belongs to {manager}, which would change it back: change {manager.split()[0]}")
    try:
        printed = manifests(found, trees)
    except LookupError:
        return _nothing("the objects have changed since they were explained", "repeat the command")
    sys.stdout.write(to_yaml(printed))
    print_notes(f"also necessary: {change.text}" for change in found.remaining)
    if note := change_in_manifests(found.changes):
        print_notes([note])
    return _PRINTED


def _first(explanation: Explanation, origin: Origin) -> tuple[Answer | None, Replacement | None]:
    """The first answer with a replacement, or else the first that does not fit."""
    refused = [answer for answer in explanation.answers if not answer.fits]
    found = ((answer, replacement_of(answer, origin.objects, origin.in_files)) for answer in refused)
    return next((pair for pair in found if pair[1] is not None), (refused[0] if refused else None, None))


def _nothing(problem: str, hint: str = "") -> int:
    for line in (*folded(f"allot: error: {problem}", width_of(sys.stderr)), *((f"  {hint}",) if hint else ())):
        sys.stderr.write(f"{line}\n")
    return _NOTHING_PRINTED


def _trees(question: Question, names: Sequence[str]) -> dict[str, Tree]:
    """The objects of these names by name, as the cluster or its snapshot has them."""
    source = question.cluster.source
    if isinstance(source, SnapshotSource):
        objects: Sequence[Tree] = [document.tree for document in source.manifests]
    else:
        with cluster_errors_of(question.cluster):
            objects = _read(question.cluster, names)
    return {name: tree for tree in objects if (name := _name(tree)) in names}


def _name(tree: Tree) -> str:
    metadata = tree.get("metadata") or {}
    return f"{tree.get('kind')} {ObjectKey(metadata.get('namespace') or 'default', metadata.get('name') or '')}"


def _read(cluster: Cluster, names: Sequence[str]) -> list[Tree]:
    from allotment.api.clusters.live import LiveSource, readable
    from allotment.cluster.inspection.discovery import discover

    if not isinstance(cluster.source, LiveSource):
        return []
    namespace = named(names[0])[1].namespace
    wanted = []
    for name in names:
        kind, key = named(name)
        wanted.append(SnapshotResource(*REPLACEABLE[kind], f"metadata.name={key.name}"))

    async def objects(client: HttpClient, way: ClusterTarget) -> list[Tree]:
        return (await readable(client, await discover(client), wanted, namespace)).objects

    return cluster.source.run(objects)
