"""Converts stored objects to the versions in which a release stores them.

A lab's data can be opened with another release, whose storage version of a kind differs: DeviceTaintRules were stored
as v1beta2 in 1.36 and are stored as v1 in 1.37. Each bucket holds one version, so that reads need no conversion.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.apiserver.conversion import as_stored
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.served_kinds import api_version, is_custom
from allotment.apiserver.storage.store import Store
from allotment.model import group_versions
from allotment.model.trees import Tree


def convert_stored(store: Store, kinds: Iterable[ServedKind]) -> None:
    """Convert the objects of built-in kinds that are stored in another version."""
    for kind in kinds:
        if is_custom(kind) or kind.stored_as or "list" not in kind.verbs:
            continue
        expected = api_version(kind, kind.storage_version)
        for entry in store.list(kind.store_bucket):
            if entry.tree["apiVersion"] != expected:
                store.put(kind.store_bucket, entry.namespace, entry.name, _converted(kind, entry.tree, expected))


def _converted(kind: ServedKind, tree: Tree, expected: str) -> Tree:
    if kind.group == group_versions.GROUP and kind.kind in group_versions.HUBS:
        return group_versions.from_hub(group_versions.to_hub(tree), expected)
    return as_stored(kind, str(tree["apiVersion"]).rpartition("/")[2], tree)
