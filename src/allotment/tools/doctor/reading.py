"""Decoding of object trees from a server or file to the values that checks use.

An API server has already validated the objects, possibly in a newer version: unknown fields are ignored, and an object
that cannot be decoded is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from allotment.model.core import Pod
from allotment.model.meta import Object
from allotment.model.quantity import QuantityError
from allotment.model.server_facts import KIND
from allotment.model.trees import Tree, read_value
from allotment.model.versions import to_v1
from allotment.tools.doctor.objects import TYPES


class ReadObjects(NamedTuple):
    """The values in the order of the trees, except pods, which come last in scheduling order (priority, then age).

    ``failed``: errors of objects that cannot be decoded.
    """

    values: tuple[Object, ...]
    failed: tuple[str, ...] = ()


def read_objects(trees: Iterable[Tree]) -> ReadObjects:
    """The values of trees of known kinds; other kinds are ignored."""
    values: list[Object] = []
    failed: list[str] = []
    for tree in trees:
        wanted = TYPES.get(_group_kind(tree))
        if wanted is None:
            continue
        try:
            values.append(read_value(to_v1(tree), wanted))
        except (msgspec.ValidationError, QuantityError) as error:
            failed.append(f"{tree['kind']} {namespaced_name(tree) or 'without a name'}: {error}")
    return ReadObjects(tuple(sorted(values, key=_order)), tuple(failed))


def is_cluster_object(tree: Tree) -> bool:
    """Whether an object has a known Kubernetes kind. Snapshots also contain facts about the server, once each."""
    return _group_kind(tree) in TYPES and tree["kind"] != KIND


def _group_kind(tree: Tree) -> tuple[str, str]:
    return str(tree.get("apiVersion", "")).rpartition("/")[0], str(tree.get("kind", ""))


def namespaced_name(tree: Tree) -> str:
    """``namespace/name`` of an object, or its name if it is in no namespace; empty without valid metadata."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return ""
    return "/".join(str(metadata[part]) for part in ("namespace", "name") if metadata.get(part))


def _order(value: Object) -> tuple[int, str]:
    if not isinstance(value, Pod):
        return (-(2**31), "")
    return (-(value.spec.priority or 0), value.metadata.creation_timestamp or "")
