"""Protobuf responses, as requested by Kubernetes' own components. Each revision of an object is encoded once.

Only whole objects and metadata are available as protobuf, not tables or custom resources; as in upstream.
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

#: Number of cached messages. The key includes the object's contents, so entries are never stale.
_CACHE_SIZE: Final = 8192
_cache: dict[tuple[bytes, str], bytes] = {}


def message_of(kind: ServedKind, version: str, entry: Entry) -> bytes:
    """The protobuf message of an object in a version."""
    key = (entry.json, api_version(kind, version))
    cached = _cache.get(key)
    if cached is None:
        if len(_cache) >= _CACHE_SIZE:
            for old in list(_cache)[: _CACHE_SIZE // 2]:
                del _cache[old]
        cached = _cache[key] = message(in_version(kind, version, entry.tree), shape_in(kind, version))
    return cached


def object_body(kind: ServedKind, version: str, entry: Entry) -> bytes:
    """A response body with one object."""
    return envelope(api_version(kind, version), kind.kind, message_of(kind, version, entry))


def list_body(kind: ServedKind, version: str, meta: Tree, entries: Iterable[Entry]) -> bytes:
    """A response body with a list of objects."""
    items = (message_of(kind, version, entry) for entry in entries)
    return envelope(api_version(kind, version), f"{kind.kind}List", list_message(meta, items))


def metadata_body(tree: Tree, version: str) -> bytes:
    """A response body with an object's metadata."""
    return envelope(f"meta.k8s.io/{version}", "PartialObjectMetadata", metadata_message(tree))


def metadata_list_body(trees: Iterable[Tree], meta: Tree, version: str) -> bytes:
    """A response body with a list of metadata."""
    return envelope(
        f"meta.k8s.io/{version}", "PartialObjectMetadataList", list_message(meta, map(metadata_message, trees))
    )


def event_frame(event_type: str, kind: ServedKind, version: str, entry: Entry) -> bytes:
    """The frame of a watch event. The object of a bookmark has only metadata."""
    if event_type != "BOOKMARK":
        return watch_event(event_type, object_body(kind, version, entry))
    body = message(entry.tree, shape_in(kind, version))
    return watch_event(event_type, envelope(api_version(kind, version), kind.kind, body))


def metadata_frame(event_type: str, tree: Tree, version: str) -> bytes:
    """The frame of a watch event with metadata only."""
    return watch_event(event_type, metadata_body(tree, version))


def error_frame(status: Tree) -> bytes:
    """The frame of the error event that ends a watch."""
    return watch_event("ERROR", encode(status))
