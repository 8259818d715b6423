"""A snapshot: the objects of a cluster, and the facts about its server, as text. Without Secrets and ConfigMaps."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from allotment.api.clusters.source import ClusterSource
from allotment.api.objects.validation import SNAPSHOT_HEADING
from allotment.cluster.inspection.snapshot import EVERYTHING
from allotment.errors import InputError
from allotment.files import atomic_write
from allotment.model.decoding import VALUE_TYPES
from allotment.model.meta import ObjectMeta
from allotment.model.serialization import to_json, to_yaml
from allotment.model.server_facts import API_VERSION, KIND, ServerFacts, facts_among
from allotment.model.trees import Tree, to_tree

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class SavedCluster:
    """``objects``: the facts about the server are the last one, if they are known.

    ``refused``: the resources that the user may not read, with the reason.
    """

    objects: tuple[Tree, ...]
    facts: ServerFacts | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    is_redacted: bool = False

    def redacted(self) -> SavedCluster:
        """Return the snapshot with pseudonyms instead of names and values."""
        from allotment.tools.redact import redacted

        objects = redacted(self.objects)
        if self.facts is None:
            return replace(self, objects=tuple(objects), is_redacted=True)
        # The reason of a refusal contains the user's name, which is omitted.
        facts = structs.replace(self.facts, unread=dict.fromkeys(self.facts.unread, "access denied"))
        return replace(self, objects=(*objects, _facts_tree(facts)), facts=facts, is_redacted=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the snapshot as a List."""
        items = list(self.objects)
        return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}

    def text(self, *, as_json: bool) -> str:
        """Return the snapshot as JSON, or as YAML with a heading that states release and time."""
        if as_json:
            return to_json(self.to_dict()) + "\n"
        if self.facts is None:
            return to_yaml([self.to_dict()])
        moment = f"{self.facts.taken[:16]}Z"
        words = (
            f"{SNAPSHOT_HEADING}{self.facts.version or 'of an unknown release'}, {moment}, written by allot snapshot"
        )
        words += ". Names and values are pseudonyms." if self.is_redacted else "."
        tries = ", ".join(f"allot {tool} --cluster FILE" for tool in ("doctor", "explain", "free"))
        return f"{words}\n# Try: {tries}\n{to_yaml([self.to_dict()])}"

    def write(self, file: Path) -> None:
        """Write the snapshot atomically, as JSON if the name ends in ``.json``."""
        text = self.text(as_json=file.suffix == ".json")
        if file.exists() and not file.is_file():  # a device or a pipe is written to, not replaced
            file.write_text(text, encoding="utf-8")
        else:
            atomic_write.replace(file.resolve(), text.encode())


def require_writable(file: Path) -> None:
    """Check before the cluster is read that a file can be written. Raises InputError."""
    if file.is_dir():
        raise InputError(f"{file} is a directory", "specify a file")
    if not file.parent.is_dir():
        raise InputError(f"directory not found: {file.parent}")


def saved_cluster(source: ClusterSource, namespace: str = "") -> SavedCluster:
    """Return all objects of a cluster. ``namespace``: only those of it, and those without a namespace.

    Raises StatusError and Unreachable for a running cluster.
    """
    if source.origin.place == "cluster":
        from allotment.api.clusters.live import LiveSource

        if isinstance(source, LiveSource):  # and not a running cluster that is kept in memory
            return source.run(lambda client, _: _read(client, namespace))
    values = source.read(EVERYTHING).cluster
    objects = [_without_applied(deepcopy(tree)) for tree in source.trees() if _type_of(tree) in VALUE_TYPES]
    facts = facts_among(values)
    return SavedCluster((*objects, *([_facts_tree(facts)] if facts is not None else ())), facts)


async def _read(client: HttpClient, namespace: str) -> SavedCluster:
    from allotment.api.clusters.live import readable
    from allotment.cluster.inspection.discovery import discover
    from allotment.cluster.inspection.server_facts import facts_of, with_unread

    discovery = await discover(client)
    found = await readable(client, discovery, EVERYTHING, namespace)
    facts = await facts_of(client, discovery, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    facts = structs.replace(with_unread(facts, found.refused), metadata=ObjectMeta(name="server"))
    return SavedCluster((*map(_without_applied, found.objects), _facts_tree(facts)), facts, found.refused)


def _type_of(tree: Tree) -> tuple[str, str]:
    """Return group and kind."""
    return str(tree.get("apiVersion") or "").rpartition("/")[0], str(tree.get("kind") or "")


def _facts_tree(facts: ServerFacts) -> Tree:
    tree: Tree = to_tree(facts, API_VERSION, KIND)
    return tree


def _without_applied(tree: Tree) -> Tree:
    """Return an object without kubectl's last-applied annotation."""
    annotations = tree["metadata"].get("annotations") or {}
    if _APPLIED not in annotations:
        return tree
    kept = {key: value for key, value in annotations.items() if key != _APPLIED}
    return {**tree, "metadata": {**tree["metadata"], "annotations": kept}}
