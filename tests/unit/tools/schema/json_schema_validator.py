"""A validator for the part of JSON Schema (draft-07) that our schemas use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
}  # fmt: skip
#: Keywords without effect on validation, or that another keyword handles.
_IGNORED = frozenset(
    {"$schema", "$id", "title", "description", "default", "definitions", "defaultSnippets", "then"}
)  # fmt: skip


def errors(value: Any, schema: Any, root: dict[str, Any], path: str = "") -> Iterator[str]:
    """The validation errors of a value with their paths. An unknown keyword raises KeyError."""
    if isinstance(schema, bool):
        if not schema:
            yield f"{path}: not allowed"
        return
    for word, given in schema.items():
        if word not in _IGNORED:
            yield from _VALIDATORS[word](value, given, schema, root, path)


def _ref(value: Any, given: str, schema: Any, root: Any, path: str) -> Iterator[str]:
    assert set(schema) == {"$ref"}, "other keywords next to $ref are ignored"
    yield from errors(value, root["definitions"][given.removeprefix("#/definitions/")], root, path)


def _type(value: Any, given: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    names = [given] if isinstance(given, str) else given
    if not any(isinstance(value, _TYPES[n]) and (n == "boolean" or not isinstance(value, bool)) for n in names):
        yield f"{path}: no {' or '.join(names)}"


def _properties(value: Any, given: dict[str, Any], schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from errors(each, given.get(key, schema.get("additionalProperties", True)), root, f"{path}/{key}")


def _map(value: Any, given: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict) and "properties" not in schema:
        for key, each in value.items():
            yield from errors(each, given, root, f"{path}/{key}")


def _required(value: Any, given: list[str], schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{path}: {name} is missing" for name in given if name not in value)


def _items(value: Any, given: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from errors(each, given, root, f"{path}/{number}")


def _combined(value: Any, given: list[Any], root: Any, path: str) -> list[bool]:
    return [not list(errors(value, each, root, path)) for each in given]


def _one_of(value: Any, given: list[Any], schema: Any, root: Any, path: str) -> Iterator[str]:
    if sum(_combined(value, given, root, path)) != 1:
        yield f"{path}: not exactly one of {given}"


def _any_of(value: Any, given: list[Any], schema: Any, root: Any, path: str) -> Iterator[str]:
    if not any(_combined(value, given, root, path)):
        yield f"{path}: none of {len(given)} forms"


def _all_of(value: Any, given: list[Any], schema: Any, root: Any, path: str) -> Iterator[str]:
    for each in given:
        yield from errors(value, each, root, path)


def _if(value: Any, given: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    if not list(errors(value, given, root, path)):
        yield from errors(value, schema["then"], root, path)


def _pattern(value: Any, given: str, schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(given, value):
        yield f"{path}: {value!r} is not like {given}"


def _size(value: Any, given: int, schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: too short or too long"


def _minimum(value: Any, given: int, schema: Any, root: Any, path: str) -> Iterator[str]:
    if isinstance(value, int) and value < given:
        yield f"{path}: less than {given}"


def _const(value: Any, given: Any, schema: Any, root: Any, path: str) -> Iterator[str]:
    if value != given:
        yield f"{path}: not {given!r}"


def _enum(value: Any, given: list[Any], schema: Any, root: Any, path: str) -> Iterator[str]:
    if value not in given:
        yield f"{path}: {value!r} is none of {len(given)} values"


_VALIDATORS: dict[str, Any] = {
    "$ref": _ref, "type": _type, "properties": _properties, "required": _required, "items": _items, "oneOf": _one_of,
    "anyOf": _any_of, "allOf": _all_of, "if": _if, "pattern": _pattern, "minLength": _size, "maxLength": _size,
    "minimum": _minimum, "additionalProperties": _map, "const": _const, "enum": _enum,
}  # fmt: skip
