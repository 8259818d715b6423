"""Defaults of a schema, put where nothing is written."""

from __future__ import annotations

import copy
from typing import Any

from allotment.model.trees import Tree


def default(value: Any, schema: Tree) -> Any:
    """The value with the schema's defaults. Fields that are null although they may not be count as not written: they
    get their default, or go.

    >>> default({"a": None}, {"properties": {"a": {"type": "integer", "default": 1}}})
    {'a': 1}
    """
    if type(value) is dict:
        return _object(value, schema)
    if type(value) is list:
        items = schema.get("items")
        if isinstance(items, dict):
            made = [_settled(each, items) for each in value]
            return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    return value


def _object(tree: Tree, schema: Tree) -> Tree:
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    made = dict(tree)
    for name, inner in properties.items():
        if name in tree:
            if tree[name] is None and "default" not in inner and not inner.get("nullable"):
                del made[name]
                continue
            made[name] = _settled(tree[name], inner)
        elif "default" in inner:
            made[name] = default(copy.deepcopy(inner["default"]), inner)
    if isinstance(others, dict):
        for name, value in tree.items():
            if name in properties:
                continue
            if value is None and "default" not in others and not others.get("nullable"):
                del made[name]
            else:
                made[name] = _settled(value, others)
    same = made.keys() == tree.keys() and all(made[name] is tree[name] for name in tree)
    return tree if same else made


def _settled(value: Any, schema: Tree) -> Any:
    if value is None and "default" in schema and not schema.get("nullable"):
        value = copy.deepcopy(schema["default"])
    return default(value, schema)
