"""Objects in the versions of their kind: as a version shows them, and as they are stored."""

from __future__ import annotations

from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.served_kinds import api_version
from allotment.model.trees import Tree


def as_stored(kind: ServedKind, version: str, tree: Tree) -> Tree:
    """A tree of any version in the shape that is stored."""
    if kind.from_version is not None and (version != kind.versions[0] or kind.stored_as):
        # Bodies need not say what they are.
        return kind.from_version({**tree, "kind": kind.kind, "apiVersion": api_version(kind, version)}, version)
    wanted = api_version(kind, kind.versions[0])
    return tree if tree.get("apiVersion") == wanted else {**tree, "apiVersion": wanted}


def in_version(kind: ServedKind, version: str, tree: Tree) -> Tree:
    """A stored tree in the shape of a version."""
    if version == kind.versions[0] and not kind.stored_as:
        return tree
    if kind.to_version is not None:
        return kind.to_version(tree, version)
    return {**tree, "apiVersion": api_version(kind, version)}
