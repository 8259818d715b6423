"""Kubernetes objects in the messages of these protocols: protobuf without the envelope of API bodies.

This is the output of ``Marshal`` of Kubernetes' Go types: without magic bytes and type, since the field determines it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from allotment.model.fields import TypeShape, shape_of
from allotment.model.protobuf.decoder import ProtobufError, decode
from allotment.model.protobuf.encoder import envelope, message
from allotment.model.trees import Tree


class ObjectKind(NamedTuple):
    api_version: str
    kind: str


NODE: Final = ObjectKind("v1", "Node")
POD: Final = ObjectKind("v1", "Pod")
SLICE: Final = ObjectKind("resource.k8s.io/v1", "ResourceSlice")


class InvalidObject(ValueError):
    """Raised for bytes that are not an object of the expected kind."""


def to_bytes(kind: ObjectKind, tree: Tree) -> bytes:
    """Return the message of an object, with the same bytes as in Go."""
    return message(tree, _shape(kind))


def from_bytes(kind: ObjectKind, data: bytes) -> Tree:
    """Return the object of a message. Raises InvalidObject."""
    try:
        return decode(envelope(kind.api_version, kind.kind, data))
    except ProtobufError as error:
        raise InvalidObject(f"no {kind.kind}: {error}") from error


@cache
def _shape(kind: ObjectKind) -> TypeShape:
    shape = shape_of(kind.api_version, kind.kind)
    assert shape is not None, kind
    return shape
