"""Formatting of values as in Go's error texts."""

from __future__ import annotations

from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.float_format import format_shortest_g
from allotment.cel.evaluation.values import ABSENT, Duration, ListValue, MapValue, Optional, Timestamp, TypeValue, Value

#: Longer texts of nested values are truncated.
_MAX_LENGTH = 1 << 20


def go_format(value: Value) -> str:
    """A value as Go's ``%v`` prints it."""
    parts: list[str] = []
    _append(value, parts, [_MAX_LENGTH])
    return "".join(parts)


def _append(value: Value, parts: list[str], remaining: list[int]) -> None:
    if remaining[0] <= 0:
        return
    kind = type(value)
    if kind is ListValue:
        _append_all("[", "]", [(None, item) for item in value.items], parts, remaining)
        return
    if kind is MapValue:
        _append_all("{", "}", [(key, value.entries[k][1]) for key, k in _sorted_keys(value)], parts, remaining)
        return
    if kind is Optional and value.value is not ABSENT:
        parts.append("optional(")
        _append(value.value, parts, remaining)
        parts.append(")")
        return
    text = _scalar_text(value)
    remaining[0] -= len(text) + 1
    parts.append(text)


def _sorted_keys(value: MapValue) -> list[tuple[Value, Value]]:
    by_key = {id(entry[0]): k for k, entry in value.entries.items()}
    return [(key, by_key[id(key)]) for key in value.ordered_keys()]


def _append_all(
    start: str, end: str, entries: list[tuple[Value, Value]], parts: list[str], remaining: list[int]
) -> None:
    parts.append(start)
    keyed = start == "{"
    for i, (key, item) in enumerate(entries):
        if remaining[0] <= 0:
            break
        if i:
            parts.append(", ")
        if keyed:
            _append(key, parts, remaining)
            parts.append(": ")
        _append(item, parts, remaining)
    parts.append(end)


def _scalar_text(value: Value) -> str:
    kind = type(value)
    if kind is str:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return format_shortest_g(value)
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    if value is None:
        return "0"
    if kind is TypeValue:
        return value.name
    if kind is Optional:
        return "optional.none()"
    if kind is Duration or kind is Timestamp:
        return timestamps.go_format_duration(value.ns) if kind is Duration else timestamps.go_format_timestamp(value)
    return str(value)
