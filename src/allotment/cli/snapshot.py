"""``allot snapshot``: saves a cluster to a file for ``explain``, ``free`` and other commands.

Read-only, and without Secrets and ConfigMaps. The file is written atomically.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.api.validation import SNAPSHOT_HEADING
from allotment.cli.live.cluster_state import read
from allotment.cli.live.connection import on_cluster
from allotment.cli.output.console import folded
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.inspection.server_facts import facts_of, with_unread
from allotment.cluster.inspection.snapshot import EVERYTHING
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InputError
from allotment.files import atomic_write
from allotment.model.meta import ObjectMeta
from allotment.model.serialization import to_json, to_yaml
from allotment.model.server_facts import API_VERSION, KIND, ServerFacts
from allotment.model.trees import Tree, to_tree
from allotment.phrases import counted, listed

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


_WIDTH = 80
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def run(arguments: Namespace) -> int:
    """Save a cluster."""
    file = Path(arguments.file) if arguments.file not in (None, "-") else None
    if file is not None and file.is_dir():
        raise InputError(f"{file} is a directory", "specify a file")
    if file is not None and not file.parent.is_dir():
        raise InputError(f"directory not found: {file.parent}")
    objects, facts, refused = on_cluster(arguments, lambda client, way: _taken(arguments, client, way))
    objects = [_without_applied(tree) for tree in objects]
    if arguments.redact:
        from allotment.tools.redact import redacted

        objects = redacted(objects)
        # The reason of a refusal contains the user's name, which is omitted.
        facts = replace(facts, unread=dict.fromkeys(facts.unread, "access denied"))
    objects.append(to_tree(facts, API_VERSION, KIND))
    text = _text(objects, facts, arguments.redact, as_json=file is not None and file.suffix == ".json")
    if file is None:
        sys.stdout.write(text)
    else:
        _write(file, text)
        counts = _counted(objects)
        sys.stderr.write(f"{file}: {counts}\n")
        if not arguments.redact:
            sys.stderr.write("The file contains names and values; --redact replaces them with pseudonyms.\n")
    for line in _left_out(refused):
        sys.stderr.write(f"{line}\n")
    return 0


def _write(file: Path, text: str) -> None:
    if file.exists() and not file.is_file():  # a device or a pipe is written to, not replaced
        file.write_text(text, encoding="utf-8")
    else:
        atomic_write.replace(file.resolve(), text.encode())


async def _taken(
    arguments: Namespace, client: HttpClient, way: ClusterTarget
) -> tuple[list[Tree], ServerFacts, Mapping[str, str]]:
    discovery = await discover(client)
    found = await read(client, discovery, EVERYTHING, arguments.namespace or "")
    facts = await facts_of(client, discovery, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return found.objects, replace(with_unread(facts, found.refused), metadata=ObjectMeta(name="server")), found.refused


def _without_applied(tree: Tree) -> Tree:
    """Return an object without kubectl's last-applied annotation."""
    annotations = tree["metadata"].get("annotations") or {}
    if _APPLIED not in annotations:
        return tree
    kept = {key: value for key, value in annotations.items() if key != _APPLIED}
    return {**tree, "metadata": {**tree["metadata"], "annotations": kept}}


def _text(objects: Sequence[Tree], facts: ServerFacts, redact: bool, as_json: bool) -> str:
    whole = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(objects)}
    if as_json:
        return to_json(whole) + "\n"
    moment = f"{facts.taken[:16]}Z"
    words = f"{SNAPSHOT_HEADING}{facts.version or 'of an unknown release'}, {moment}, written by allot snapshot"
    words += ". Names and values are pseudonyms." if redact else "."
    tries = ", ".join(f"allot {tool} --cluster FILE" for tool in ("doctor", "explain", "free"))
    return f"{words}\n# Try: {tries}\n{to_yaml([whole])}"


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
