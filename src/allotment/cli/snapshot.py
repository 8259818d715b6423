"""``allot snapshot``: saves a cluster to a file for ``explain``, ``free`` and other commands.

Read-only, and without Secrets and ConfigMaps. The file is written atomically.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from allotment.api.clusters.saved import require_writable, saved_cluster
from allotment.cli.inputs.clusters import cluster_errors_of, live_cluster
from allotment.cli.output.console import folded
from allotment.model.trees import Tree
from allotment.phrases import counted, listed

_WIDTH = 80


def run(arguments: Namespace) -> int:
    """Save a cluster."""
    file = Path(arguments.file) if arguments.file not in (None, "-") else None
    if file is not None:
        require_writable(file)
    cluster = live_cluster(arguments)
    with cluster_errors_of(cluster):
        found = saved_cluster(cluster.source, arguments.namespace or "")
    saved = found.redacted() if arguments.redact else found
    if file is None:
        sys.stdout.write(saved.text(as_json=False))
    else:
        saved.write(file)
        sys.stderr.write(f"{file}: {_counted(saved.objects)}\n")
        if not arguments.redact:
            sys.stderr.write("The file contains names and values; --redact replaces them with pseudonyms.\n")
    for line in _left_out(found.refused):
        sys.stderr.write(f"{line}\n")
    return 0


def _left_out(refused: Mapping[str, str]) -> Iterator[str]:
    """Yield the resources that could not be read, by reason."""
    by_reason: dict[str, list[str]] = {}
    for resource, reason in refused.items():
        by_reason.setdefault(reason, []).append(resource)
    for reason, resources in by_reason.items():
        yield from folded(f"Not saved, because access was denied ({reason}): {listed(resources)}.", _WIDTH)
    if refused:
        yield "allot rbac reader prints the permissions that a snapshot requires."


def _counted(objects: Sequence[Tree]) -> str:
    """Return the numbers of the most relevant kinds: ``2 nodes, 3 pods …``."""
    kinds = {"Node": "node", "ResourceSlice": "slice", "ResourceClaim": "claim", "Pod": "pod"}
    counts = {word: sum(tree["kind"] == kind for tree in objects) for kind, word in kinds.items()}
    text = ", ".join(counted(count, word) for word, count in counts.items())
    return f"{text}; {len(objects)} objects in total"
