"""Converts between trees of plain values (as in JSON and YAML) and object values."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from allotment.decoding import decodable
from allotment.model.meta import Object, Value
from allotment.model.quantity import Quantity

#: An object as plain values, as in JSON and YAML.
Tree = dict[str, Any]
V = TypeVar("V")


def to_value(tree: Any, type: type[V]) -> V:
    """Convert a tree that strict decoding has cleaned to a value; fields that ``type`` does not have are ignored.

    Raises ``msgspec.ValidationError`` for a tree that was not cleaned, ``QuantityError`` for an invalid quantity.
    """
    return msgspec.convert(tree, decodable(type), dec_hook=_decode)


def read_value(tree: Any, type: type[V]) -> V:
    """`to_value` for a tree from an API server, which prints an unset list without ``omitempty`` as null."""
    try:
        return to_value(tree, type)
    except msgspec.ValidationError:
        return to_value(without_nulls(tree), type)


def without_nulls(tree: Any) -> Any:
    """The tree without fields that are null."""
    if isinstance(tree, dict):
        return {key: without_nulls(value) for key, value in tree.items() if value is not None}
    if isinstance(tree, list):
        return [without_nulls(value) for value in tree]
    return tree


def to_tree(value: Value, api_version: str = "", kind: str = "") -> Tree:
    """Convert a value to a tree in Kubernetes' field order, without unset fields; quantities are canonical.

    With ``api_version`` and ``kind`` the result is a manifest.
    """
    # Through JSON, because ``to_builtins`` would keep tuples, which code that handles trees does not accept as lists.
    tree: Tree = msgspec.json.decode(msgspec.json.encode(value, enc_hook=_encode))
    return {"apiVersion": api_version, "kind": kind, **tree} if kind else tree


def manifest_of(value: Object) -> Tree:
    """Convert a node, or an object of ``resource.k8s.io``, to a manifest of the newest API version."""
    kind = type(value).__name__
    return to_tree(value, "v1" if kind == "Node" else "resource.k8s.io/v1", kind)


def _decode(expected_type: type, value: Any) -> Any:
    if expected_type is Quantity:
        return Quantity.parse(value) if isinstance(value, str) else Quantity.of_int(value)
    raise NotImplementedError(expected_type)


def _encode(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(type(value))
