"""Applies the defaults of a schema to absent fields."""

from __future__ import annotations

import copy
from typing import Any

from allotment.model.trees import Tree


def apply_defaults(value: Any, schema: Tree) -> Any:
    """The value with the schema's defaults applied.

    A null in a field that is not nullable counts as absent: it is replaced by the default, or removed.

    >>> apply_defaults({"a": None}, {"properties": {"a": {"type": "integer", "default": 1}}})
    {'a': 1}
    """
    if type(value) is dict:
        return _object(value, schema)
    if type(value) is list:
        items = schema.get("items")
        if isinstance(items, dict):
            defaulted = [_with_default(item, items) for item in value]
            return defaulted if any(new is not old for new, old in zip(defaulted, value, strict=True)) else value
    return value


def has_defaults(schema: Tree) -> bool:
    """Whether a schema has a default at any depth.

    >>> has_defaults({"properties": {"a": {"items": {"type": "integer", "default": 1}}}})
    True
    >>> has_defaults({"properties": {"default": {"type": "string"}}})
    False
    """
    if "default" in schema:
        return True
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(has_defaults(each) for each in inner if isinstance(each, dict))


def _object(tree: Tree, schema: Tree) -> Tree:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    defaulted = dict(tree)
    for name, inner in properties.items():
        if name in tree:
            if tree[name] is None and "default" not in inner and not inner.get("nullable"):
                del defaulted[name]
                continue
            defaulted[name] = _with_default(tree[name], inner)
        elif "default" in inner:
            defaulted[name] = apply_defaults(copy.deepcopy(inner["default"]), inner)
    if isinstance(additional, dict):
        for name, value in tree.items():
            if name in properties:
                continue
            if value is None and "default" not in additional and not additional.get("nullable"):
                del defaulted[name]
            else:
                defaulted[name] = _with_default(value, additional)
    unchanged = defaulted.keys() == tree.keys() and all(defaulted[name] is tree[name] for name in tree)
    return tree if unchanged else defaulted


def _with_default(value: Any, schema: Tree) -> Any:
    if value is None and "default" in schema and not schema.get("nullable"):
        value = copy.deepcopy(schema["default"])
    return apply_defaults(value, schema)
