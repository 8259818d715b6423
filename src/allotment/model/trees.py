"""Between trees of plain values (what JSON and YAML hold) and object values."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from allotment.model.meta import Value
from allotment.model.quantity import Quantity

#: What JSON and YAML hold of an object.
Tree = dict[str, Any]
V = TypeVar("V")


def to_value(tree: Any, type: type[V]) -> V:
    """The object value of a tree that strict decoding has cleaned; fields that ``type`` has not are left out.

    Raises ``msgspec.ValidationError`` for a tree that was not cleaned, ``QuantityError`` for a bad quantity.
    """
    return msgspec.convert(tree, type, dec_hook=_decode)


def read_value(tree: Any, type: type[V]) -> V:
    """`to_value` for a tree as an API server shows it: an unset list without ``omitempty`` is there as null."""
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
    """The tree of an object value, in Kubernetes' field order, unset fields left out; quantities in canonical form.

    Given ``api_version`` and ``kind`` it becomes a manifest.
    """
    # Through JSON, for ``to_builtins`` would keep tuples, which no reader of trees takes for lists.
    tree: Tree = msgspec.json.decode(msgspec.json.encode(value, enc_hook=_encode))
    return {"apiVersion": api_version, "kind": kind, **tree} if kind else tree


def _decode(wanted: type, value: Any) -> Any:
    if wanted is Quantity:
        return Quantity.parse(value) if isinstance(value, str) else Quantity.of_int(value)
    raise NotImplementedError(wanted)


def _encode(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(type(value))
