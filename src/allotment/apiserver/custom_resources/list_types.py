"""List types ``set`` and ``map``: rejects duplicates, and matches items with their previous values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from allotment.apiserver.kinds.schema_extensions import LIST_KEYS, LIST_TYPE
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, duplicate, invalid

#: Stands for the old value if there is none to compare with.
ABSENT: Final = object()


def list_problems(value: Any, schema: Tree, path: str = "") -> Iterator[FieldError]:
    """Yield an error for each duplicate item, anywhere in a value."""
    if type(value) is list:
        list_type = schema.get(LIST_TYPE)
        if list_type == "set":
            yield from (duplicate(f"{path}[{index}]", value[index]) for index in _duplicates(value))
        elif list_type == "map":
            yield from _map_items(value, schema.get(LIST_KEYS) or (), path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from list_problems(item, items, f"{path}[{index}]")
    elif type(value) is dict:
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                yield from list_problems(item, properties[name], f"{path}.{name}" if path else name)
            elif isinstance(additional, dict):
                yield from list_problems(item, additional, f"{path}[{name}]")


def _map_items(values: list[Any], keys: Sequence[str], path: str) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        if value is not None and type(value) is not dict:
            yield invalid(f"{path}[{index}]", value, "must be an object for an array of list-type map")
            return
    identities = [{key: value[key] for key in keys if key in value} for value in map(_tree, values)]
    yield from (duplicate(f"{path}[{index}]", identities[index]) for index in _duplicates(identities))


def _tree(value: Any) -> Tree:
    return value if type(value) is dict else {}


def _identity(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _duplicates(values: list[Any]) -> Iterator[int]:
    """Yield the index of the second of each group of equal values."""
    seen: dict[bytes, int] = {}
    for index, value in enumerate(values):
        identity = _identity(value)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            yield index


def previous_items(values: list[Any], schema: Tree, old: Any) -> list[Any]:
    """The old value of each item, matched by the list map keys; empty for lists of other types."""
    if schema.get(LIST_TYPE) != "map" or type(old) is not list:
        return []
    keys = schema.get(LIST_KEYS) or ()
    by_key = {_identity([_tree(item).get(key) for key in keys]): item for item in old}
    return [by_key.get(_identity([_tree(value).get(key) for key in keys]), ABSENT) for value in values]
