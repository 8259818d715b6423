"""Any value as Go prints it in an error text."""

from __future__ import annotations

from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.float_format import double
from allotment.cel.evaluation.values import ABSENT, Duration, ListValue, MapValue, Optional, Timestamp, TypeValue, Value

#: Longer texts of nested values are cut: they only ever decorate an error.
_LONGEST = 1 << 20


def show(value: Value) -> str:
    """A value as error texts print it (Go's ``%v``)."""
    parts: list[str] = []
    _show(value, parts, [_LONGEST])
    return "".join(parts)


def _show(value: Value, parts: list[str], room: list[int]) -> None:
    if room[0] <= 0:
        return
    kind = type(value)
    if kind is ListValue:
        _show_all("[", "]", [(None, item) for item in value.items], parts, room)
        return
    if kind is MapValue:
        _show_all("{", "}", [(key, value.entries[k][1]) for key, k in _sorted_keys(value)], parts, room)
        return
    if kind is Optional and value.value is not ABSENT:
        parts.append("optional(")
        _show(value.value, parts, room)
        parts.append(")")
        return
    text = _show_simple(value)
    room[0] -= len(text) + 1
    parts.append(text)


def _sorted_keys(value: MapValue) -> list[tuple[Value, Value]]:
    by_key = {id(entry[0]): k for k, entry in value.entries.items()}
    return [(key, by_key[id(key)]) for key in value.ordered_keys()]


def _show_all(start: str, end: str, entries: list[tuple[Value, Value]], parts: list[str], room: list[int]) -> None:
    parts.append(start)
    keyed = start == "{"
    for i, (key, item) in enumerate(entries):
        if room[0] <= 0:
            break
        if i:
            parts.append(", ")
        if keyed:
            _show(key, parts, room)
            parts.append(": ")
        _show(item, parts, room)
    parts.append(end)


def _show_simple(value: Value) -> str:
    kind = type(value)
    if kind is str:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return double(value)
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    if value is None:
        return "0"
    if kind is TypeValue:
        return value.name
    if kind is Optional:
        return "optional.none()"
    if kind is Duration or kind is Timestamp:
        return timestamps.go_duration(value.ns) if kind is Duration else timestamps.go_time(value)
    return str(value)
