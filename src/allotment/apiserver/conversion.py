"""Converts objects between the storage version of a kind and its other versions."""

from __future__ import annotations

from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.served_kinds import api_version
from allotment.model.trees import Tree


def as_stored(kind: ServedKind, version: str, tree: Tree) -> Tree:
    """Convert a tree of any version to the storage version."""
    if kind.from_version is not None and (version != kind.storage_version or kind.stored_as):
        # Request bodies may omit kind and apiVersion.
        return kind.from_version({**tree, "kind": kind.kind, "apiVersion": api_version(kind, version)}, version)
    storage_version = api_version(kind, kind.storage_version)
    return tree if tree.get("apiVersion") == storage_version else {**tree, "apiVersion": storage_version}


def completed(kind: ServedKind, tree: Tree) -> Tree:
    """A stored tree as it is read: the same one, unless the kind's definition has other defaults by now."""
    return tree if kind.complete is None else kind.complete(tree)


def in_version(kind: ServedKind, version: str, tree: Tree) -> Tree:
    """Convert a stored tree to a version."""
    tree = completed(kind, tree)
    if version == kind.storage_version and not kind.stored_as:
        return tree
    if kind.to_version is not None:
        return kind.to_version(tree, version)
    return {**tree, "apiVersion": api_version(kind, version)}
