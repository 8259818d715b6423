"""Objects as protobuf, for the control plane's own programs: each state of an object is written once and then joined.

Only whole objects and bare metadata have messages. Tables and objects of users' kinds have none, and clients know it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.served_kinds import api_version, shape_in
from allotment.apiserver.storage.store import Entry
from allotment.model.protobuf import encode
from allotment.model.protobuf.encoder import envelope, list_message, message, metadata_message, watch_event
from allotment.model.trees import Tree

#: How many messages are kept. They are found by what is in the object, so none is ever out of date.
_KEPT: Final = 8192
_kept: dict[tuple[bytes, str], bytes] = {}


def message_of(kind: ServedKind, version: str, entry: Entry) -> bytes:
    """The message of an object in a version."""
    key = (entry.json, api_version(kind, version))
    known = _kept.get(key)
    if known is None:
        if len(_kept) >= _KEPT:
            for old in list(_kept)[: _KEPT // 2]:
                del _kept[old]
        known = _kept[key] = message(in_version(kind, version, entry.tree), shape_in(kind, version))
    return known


def object_body(kind: ServedKind, version: str, entry: Entry) -> bytes:
    """An object."""
    return envelope(api_version(kind, version), kind.kind, message_of(kind, version, entry))


def list_body(kind: ServedKind, version: str, meta: Tree, entries: Iterable[Entry]) -> bytes:
    """Objects as a list."""
    items = (message_of(kind, version, entry) for entry in entries)
    return envelope(api_version(kind, version), f"{kind.kind}List", list_message(meta, items))


def metadata_body(tree: Tree, version: str) -> bytes:
    """An object as its metadata alone."""
    return envelope(f"meta.k8s.io/{version}", "PartialObjectMetadata", metadata_message(tree))


def metadata_list_body(trees: Iterable[Tree], meta: Tree, version: str) -> bytes:
    """Objects as a list of their metadata."""
    return envelope(f"meta.k8s.io/{version}", "PartialObjectMetadataList", list_message(meta, map(metadata_message, trees)))


def event_frame(sort: str, kind: ServedKind, version: str, entry: Entry) -> bytes:
    """An event of a watch. A bookmark's object is nothing but metadata."""
    if sort != "BOOKMARK":
        return watch_event(sort, object_body(kind, version, entry))
    body = message(entry.tree, shape_in(kind, version))
    return watch_event(sort, envelope(api_version(kind, version), kind.kind, body))


def metadata_frame(sort: str, tree: Tree, version: str) -> bytes:
    """An event of a watch that shows metadata alone."""
    return watch_event(sort, metadata_body(tree, version))


def error_frame(status: Tree) -> bytes:
    """The event that ends a watch."""
    return watch_event("ERROR", encode(status))
