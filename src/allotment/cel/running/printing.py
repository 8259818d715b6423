"""Values as Go prints them: numbers in results of ``string()``, any value in error texts."""

from __future__ import annotations

import math

from allotment.cel.running.values import ABSENT, Duration, ListValue, MapValue, Optional, Timestamp, TypeValue, Value

#: Longer texts of nested values are cut: they only ever decorate an error.
_LONGEST = 1 << 20


def double(value: float) -> str:
    """Go's ``%g`` with the shortest digits: an exponent below -4 and from 6 on, of at least two digits.

    >>> double(1.0), double(123456.0), double(1e6), double(0.00001)
    ('1', '123456', '1e+06', '1e-05')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _shortest(value)
    if exponent < -4 or exponent >= 6:
        return _exponential(sign, digits, exponent)
    return _plain(sign, digits, exponent)


def decimal(value: float) -> str:
    """Go's ``%f`` with the shortest digits, never an exponent; the value must be finite."""
    sign, digits, exponent = _shortest(value)
    return _plain(sign, digits, exponent)


def _shortest(value: float) -> tuple[str, str, int]:
    """Sign, digits without trailing zeros, and the power of ten of the first digit."""
    text = repr(abs(value))
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1
    if whole == "0":
        exponent -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return (sign, digits, exponent) if digits else (sign, "0", 0)


def _exponential(sign: str, digits: str, exponent: int) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _plain(sign: str, digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return f"{sign}{digits.ljust(exponent + 1, '0')}"
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


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
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return double(value)
    if kind is bytes:
        return "[" + " ".join(map(str, value)) + "]"
    if value is None:
        return "0"
    if kind is TypeValue:
        return value.name  # type: ignore[no-any-return]
    if kind is Optional:
        return "optional.none()"
    if kind is Duration or kind is Timestamp:
        from allotment.cel.running.library import moments

        return moments.go_duration(value.ns) if kind is Duration else moments.go_time(value)
    return str(value)
