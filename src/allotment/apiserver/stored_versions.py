"""Converts stored objects to the versions and the fields of a release.

A lab's data can be opened with another release, whose storage version of a kind differs: DeviceTaintRules were stored
as v1beta2 in 1.36 and are stored as v1 in 1.37. Each bucket holds one version, so that reads need no conversion.
Fields that the release does not have are removed: kube-apiserver drops them when it decodes what etcd has, and from
etcd with the next write of the object. Here they are lost when the data is opened.
"""

from __future__ import annotations

from collections.abc import Iterable

from allotment.apiserver.conversion import as_stored
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.served_kinds import api_version, is_custom, shape_in
from allotment.apiserver.storage.store import Store
from allotment.model import group_versions
from allotment.model.fields import TypeShape
from allotment.model.strict_decoding import strict_decode
from allotment.model.trees import Tree


def convert_stored(store: Store, kinds: Iterable[ServedKind]) -> None:
    """Convert the objects of built-in kinds that are stored in another version, or have fields of another release."""
    for kind in kinds:
        if is_custom(kind) or kind.stored_as or "list" not in kind.verbs:
            continue
        expected = api_version(kind, kind.storage_version)
        shape = shape_in(kind, kind.storage_version)
        for entry in store.list(kind.store_bucket):
            tree = entry.tree
            if tree["apiVersion"] != expected:
                tree = _converted(kind, tree, expected)
            tree = _without_unknown_fields(kind, tree, shape)
            if tree is not entry.tree:
                store.put(kind.store_bucket, entry.namespace, entry.name, tree)


def _converted(kind: ServedKind, tree: Tree, expected: str) -> Tree:
    if kind.group == group_versions.GROUP and kind.kind in group_versions.HUBS:
        return group_versions.from_hub(group_versions.to_hub(tree), expected)
    return as_stored(kind, str(tree["apiVersion"]).rpartition("/")[2], tree)


def _without_unknown_fields(kind: ServedKind, tree: Tree, shape: TypeShape) -> Tree:
    decoded = strict_decode(tree, tree["apiVersion"], kind.kind, shape, release=kind.release)
    has_unknown = any(violation.category == "unknown" for violation in decoded.violations)
    return decoded.tree if has_unknown else tree
