"""Objects that expressions create without a schema, such as ``Object.spec{replicas: 1}`` and ``JSONPatch{…}``."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from allotment.cel.evaluation.timestamps import format_duration, format_timestamp
from allotment.cel.evaluation.values import CelError, Duration, ListValue, MapValue, Timestamp, Uint, Value, go_type
from allotment.model.quoting import quote

#: The roots of the names of their types.
ROOTS: Final = frozenset({"JSONPatch", "Object"})


class ObjectValue:
    """An object with its fields. ``cel_type``: the name of its type."""

    __slots__ = ("cel_type", "fields")
    go_type: ClassVar = "*dynamic.ObjectVal"

    def __init__(self, name: str, fields: Mapping[str, Value]) -> None:
        self.cel_type = name
        self.fields = fields


def type_mismatches(value: Value, expected: str) -> Iterator[str]:
    """The objects in a value whose types are not named for their paths, as upstream reports them."""
    kind = type(value)
    if kind is ObjectValue:
        if value.cel_type != expected:
            yield (
                f"unexpected type name {quote(value.cel_type)}, expected {quote(expected)}, "
                "which matches field name path from root Object type"
            )
        for name, inner in value.fields.items():
            yield from type_mismatches(inner, f"{expected}.{name}")
    elif kind is ListValue:
        for inner in value.items:
            yield from type_mismatches(inner, expected)
    elif kind is MapValue:
        for _, inner in value.entries.values():
            yield from type_mismatches(inner, expected)


def json_value(value: Value) -> Any:
    """A value as JSON. Raises CelError for a value that has no such form."""
    kind = type(value)
    if kind in _SAME_IN_JSON:
        return value
    if kind is ObjectValue:
        return {name: json_value(inner) for name, inner in value.fields.items()}
    if kind is ListValue:
        return [json_value(inner) for inner in value.items]
    if kind is MapValue:
        return {_key(key): json_value(inner) for key, inner in value.entries.values()}
    if kind is Uint:
        return int(value)
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is Timestamp:
        return format_timestamp(value)
    if kind is Duration:
        return format_duration(value)
    raise CelError(f"{go_type(value)} has no form in JSON")


_SAME_IN_JSON: Final = frozenset({bool, float, int, str, type(None)})


def _key(key: Value) -> str:
    if type(key) is not str:
        raise CelError(f"map key {quote(str(key))} is of type {go_type(key)}, not string")
    return key
