"""``string.format(list)`` by the rules before version 4 of the strings library (spec/cel.md §7).

Upstream prints ``%f`` and ``%e`` in American English: thousands separated by commas, exponents as superscripts after a
multiplication sign between narrow no-break spaces. The format text is read byte by byte, as upstream does, which shows
in errors about characters that are not ASCII.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from allotment.cel.library import conversions
from allotment.cel.library.arithmetic import LONGEST
from allotment.cel.values import (
    CostExceeded,
    Duration,
    Failure,
    ListValue,
    MapValue,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)
from allotment.model.quoting import quote

_DEFAULT_PRECISION: Final = 6
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_PRECISION: Final = re.compile(rb"\.([0-9]*)")
#: More digits are not printed by anybody who means well.
_MOST_DIGITS: Final = 1_000_000

_NOT_A_STRING: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given "
)


class _Room:
    """How much more may be printed; values that share parts could print without end."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = LONGEST

    def take(self, text: str) -> str:
        self.left -= len(text) + 1
        if self.left < 0:
            raise CostExceeded
        return text


def format_string(text: str, arguments: ListValue) -> str:
    """The text with its clauses replaced by the arguments."""
    source = text.encode("utf-8", "surrogateescape")
    room = _Room()
    parts: list[str] = []
    at = used = 0
    while True:
        clause = source.find(b"%", at)
        if clause < 0:
            parts.append(source[at:].decode("utf-8", "surrogateescape"))
            break
        parts.append(source[at:clause].decode("utf-8", "surrogateescape"))
        if source[clause + 1 : clause + 2] == b"%":
            parts.append("%")
            at = clause + 2
            continue
        if used >= arguments.size:
            raise Failure(f"index {used} out of range")
        if clause + 1 >= len(source):
            raise Failure("unexpected end of string")
        at, formatter = _clause(source, clause + 1)
        try:
            parts.append(room.take(formatter(arguments.at(used), room)))
        except Failure as failure:
            raise Failure(f"error during formatting: {failure}") from None
        used += 1
    return "".join(parts)


_Formatter = Callable[[Value, _Room], str]


def _clause(source: bytes, at: int) -> tuple[int, _Formatter]:
    """The clause at a position behind ``%``: where it ends, and what it does."""
    problem = "could not parse formatting clause: "
    precision = _DEFAULT_PRECISION
    given = _PRECISION.match(source, at)
    if given is not None:
        at = given.end()
        digits = given.group(1).decode()
        if at >= len(source):
            raise Failure(f"{problem}error while parsing precision: could not find end of precision specifier")
        wrong = "invalid syntax" if not digits else "value out of range" if len(digits.lstrip("0")) > 18 else ""
        if wrong:
            raise Failure(
                f"{problem}error while parsing precision: error while converting precision to integer: "
                f"strconv.Atoi: parsing {quote(digits)}: {wrong}"
            )
        precision = int(digits)
    letter = chr(source[at])
    formatter = _clause_of(letter, precision)
    if formatter is None:
        raise Failure(f'{problem}unrecognized formatting clause "{letter}"')
    return at + 1, formatter


def _clause_of(letter: str, precision: int) -> _Formatter | None:
    match letter:
        case "s":
            return _text
        case "d":
            return _decimal
        case "f":
            return lambda value, room: _fixed(value, precision)
        case "e":
            return lambda value, room: _scientific(value, precision)
        case "b":
            return _binary
        case "x" | "X":
            return lambda value, room: _hexadecimal(value, letter)
        case "o":
            return _octal
        case _:
            return None


def _text(value: Value, room: _Room) -> str:
    kind = type(value)
    if kind is ListValue:
        return _list(value, room)
    if kind is MapValue:
        return _map(value, room)
    if value is None:
        return "null"
    if kind is bytes:
        try:
            return conversions.to_text(value)
        except Failure as failure:
            raise Failure(f"could not convert argument {quote(str(failure))} to string") from None
    if kind in _CONVERTIBLE:
        return conversions.to_text(value)
    raise Failure(_NOT_A_STRING + type_name(value))


_CONVERTIBLE: Final = frozenset({str, bool, int, Uint, float, Duration, Timestamp, TypeValue})


def _decimal(value: Value, room: _Room) -> str:
    if type(value) is int or type(value) is Uint:
        return str(int(value))
    raise Failure(f"decimal clause can only be used on integers, was given {type_name(value)}")


def _double(value: Value, clause: str) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in _SPECIAL:
        return float(value)
    raise Failure(f"{clause} clause can only be used on doubles, was given {type_name(value)}")


def _fixed(value: Value, precision: int) -> str:
    number = _double(value, "fixed-point")
    return _not_finite(number) or f"{number:,.{_checked(precision)}f}"


def _scientific(value: Value, precision: int) -> str:
    number = _double(value, "scientific")
    special = _not_finite(number)
    if special:
        return special
    mantissa, _, exponent = f"{number:.{_checked(precision)}e}".partition("e")
    sign = "-" if exponent[0] == "-" else ""
    return f"{mantissa}\u202f×\u202f10{(sign + exponent[1:].zfill(2)).translate(_SUPERSCRIPTS)}"


def _checked(precision: int) -> int:
    if precision > _MOST_DIGITS:
        raise CostExceeded
    return precision


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return ""


def _binary(value: Value, room: _Room) -> str:
    kind = type(value)
    if kind is bool:
        return "1" if value else "0"
    if kind is int or kind is Uint:
        return format(int(value), "b")
    raise Failure(f"only integers and bools can be formatted as binary, was given {type_name(value)}")


def _hexadecimal(value: Value, letter: str) -> str:
    kind = type(value)
    if kind is str or kind is bytes:
        digits: str = (value if kind is bytes else conversions.string_to_bytes(value)).hex()
        return digits.upper() if letter == "X" else digits
    if kind is int or kind is Uint:
        return format(int(value), letter)
    raise Failure(f"only integers, byte buffers, and strings can be formatted as hex, was given {type_name(value)}")


def _octal(value: Value, room: _Room) -> str:
    if type(value) is int or type(value) is Uint:
        return format(int(value), "o")
    raise Failure(f"octal clause can only be used on integers, was given {type_name(value)}")


# --- inside lists and maps, values are printed as CEL literals -----------------------------------------------------


def _literal(value: Value, room: _Room) -> str:
    kind = type(value)
    if kind is ListValue:
        return _list(value, room)
    if kind is MapValue:
        return _map(value, room)
    return room.take(_simple_literal(value, kind, room))


def _simple_literal(value: Value, kind: type, room: _Room) -> str:
    if kind is str:
        return quote(value)
    if kind is bytes:
        return "b" + quote(_text(value, room))
    if kind is float:
        if math.isfinite(value):
            return f"{value:.6f}"
        return quote("NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf")
    if kind is Timestamp or kind is Duration:
        name = "timestamp" if kind is Timestamp else "duration"
        return f"{name}({quote(conversions.to_text(value))})"
    if value is None or kind in _CONVERTIBLE:
        return _text(value, room)
    raise Failure(f"no formatting function for {type_name(value)}")


def _list(value: ListValue, room: _Room) -> str:
    parts = [_literal(item, room) for item in value.items]
    return "[" + ", ".join(parts) + "]"


def _map(value: MapValue, room: _Room) -> str:
    pairs: list[tuple[str, str]] = []
    for key, item in value.entries.values():
        if type(key) not in (str, bool, int, Uint):
            raise Failure(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((room.take(_simple_literal(key, type(key), room)), _literal(item, room)))
    pairs.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
