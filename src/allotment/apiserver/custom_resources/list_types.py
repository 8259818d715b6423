"""Lists that are sets or are told apart by keys: no two items alike, and which item was which before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from allotment.apiserver.custom_resources.shapes import LIST_KEYS, LIST_TYPE
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, duplicate, invalid

#: Where nothing was before, or nothing that a value could be compared with.
ABSENT: Final = object()


def list_problems(value: Any, schema: Tree, path: str = "") -> Iterator[FieldError]:
    """Every item that is there twice, anywhere in a value."""
    if type(value) is list:
        sort = schema.get(LIST_TYPE)
        if sort == "set":
            yield from (duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value))
        elif sort == "map":
            yield from _keyed(value, schema.get(LIST_KEYS) or (), path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, each in enumerate(value):
                yield from list_problems(each, items, f"{path}[{index}]")
    elif type(value) is dict:
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, each in value.items():
            if name in properties:
                yield from list_problems(each, properties[name], f"{path}.{name}" if path else name)
            elif isinstance(others, dict):
                yield from list_problems(each, others, f"{path}[{name}]")


def _keyed(values: list[Any], keys: Sequence[str], path: str) -> Iterator[FieldError]:
    for index, value in enumerate(values):
        if value is not None and type(value) is not dict:
            yield invalid(f"{path}[{index}]", value, "must be an object for an array of list-type map")
            return
    identities = [{key: value[key] for key in keys if key in value} for value in map(_tree, values)]
    yield from (duplicate(f"{path}[{index}]", identities[index]) for index in _repeated(identities))


def _tree(value: Any) -> Tree:
    return value if type(value) is dict else {}


def _identity(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _repeated(values: list[Any]) -> Iterator[int]:
    """The second of each group of equal values."""
    seen: dict[bytes, int] = {}
    for index, value in enumerate(values):
        identity = _identity(value)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            yield index


def matching(values: list[Any], schema: Tree, old: Any) -> list[Any]:
    """What each item was before, by the list's keys; empty for lists whose items nothing tells apart."""
    if schema.get(LIST_TYPE) != "map" or type(old) is not list:
        return []
    keys = schema.get(LIST_KEYS) or ()
    before = {_identity([_tree(item).get(key) for key in keys]): item for item in old}
    return [before.get(_identity([_tree(value).get(key) for key in keys]), ABSENT) for value in values]
