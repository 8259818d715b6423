"""Converts objects between the storage version of a kind and its other versions."""

from __future__ import annotations

from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.served_kinds import api_version
from allotment.model.trees import Tree


def as_stored(kind: ServedKind, version: str, tree: Tree) -> Tree:
    """Convert a tree of any version to the storage version."""
    if kind.convert is not None:
        # Request bodies may omit kind and apiVersion.
        written = {**tree, "kind": kind.kind, "apiVersion": api_version(kind, version)}
        if version != kind.storage_version:
            written = kind.rules.default(written, None)
        return kind.convert(written, kind.storage_version, is_stored=False)
    if kind.from_version is not None and (version != kind.storage_version or kind.stored_as):
        return kind.from_version({**tree, "kind": kind.kind, "apiVersion": api_version(kind, version)}, version)
    storage_version = api_version(kind, kind.storage_version)
    return tree if tree.get("apiVersion") == storage_version else {**tree, "apiVersion": storage_version}


def converted_metadata(kind: ServedKind, metadata: Tree, converted: Tree) -> Tree:
    """Metadata with the labels and annotations of a converted object: a conversion can change these."""
    if kind.convert is None:
        return metadata
    changed = {name: converted[name] for name in ("labels", "annotations") if converted.get(name)}
    return {**{name: value for name, value in metadata.items() if name not in ("labels", "annotations")}, **changed}


def completed(kind: ServedKind, tree: Tree) -> Tree:
    """A stored tree in the storage version as it is read: the same one, unless its kind's definition has changed since.

    The definition can have other defaults, and another storage version.
    """
    if kind.complete is not None:
        tree = kind.complete(tree)
    return tree if kind.convert is None else kind.convert(tree, kind.storage_version, is_stored=True)


def in_version(kind: ServedKind, version: str, tree: Tree) -> Tree:
    """Convert a stored tree to a version."""
    if kind.complete is not None:
        tree = kind.complete(tree)
    if kind.convert is not None:
        return kind.convert(tree, version, is_stored=True)
    if version == kind.storage_version and not kind.stored_as:
        return tree
    if kind.to_version is not None:
        return kind.to_version(tree, version)
    return {**tree, "apiVersion": api_version(kind, version)}
