"""Objects as these protocols carry them: the bare message of one kind, without the envelope of API bodies.

It is what ``Marshal`` of Kubernetes' Go types makes: neither magic bytes nor a kind, since the field says which it is.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from allotment.model.fields import Shape, shape_of
from allotment.model.protobuf.decoder import ProtobufError, decode
from allotment.model.protobuf.encoder import enveloped, message
from allotment.model.trees import Tree


class ObjectKind(NamedTuple):
    """A kind of one version."""

    api_version: str
    kind: str


NODE: Final = ObjectKind("v1", "Node")
POD: Final = ObjectKind("v1", "Pod")
SLICE: Final = ObjectKind("resource.k8s.io/v1", "ResourceSlice")


class InvalidObject(ValueError):
    """The bytes are no object of the kind that was due."""


def to_bytes(kind: ObjectKind, tree: Tree) -> bytes:
    """The message of an object, byte for byte as Go marshals it."""
    return message(tree, _shape(kind))


def from_bytes(kind: ObjectKind, data: bytes) -> Tree:
    """The object in a message. Raises Unreadable."""
    try:
        return decode(enveloped(kind.api_version, kind.kind, data))
    except ProtobufError as error:
        raise InvalidObject(f"no {kind.kind}: {error}") from error


@cache
def _shape(kind: ObjectKind) -> Shape:
    shape = shape_of(kind.api_version, kind.kind)
    assert shape is not None, kind
    return shape
