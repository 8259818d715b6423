"""``string.format(list)`` with the rules before version 4 of the strings library.

Upstream formats ``%f`` and ``%e`` in American English: commas between thousands, exponents as superscripts after a
multiplication sign. `checking.format_clauses` parses the clauses.
"""

from __future__ import annotations

import math
from typing import Final

from allotment.cel.checking.format_clauses import Clause, FormatError, clauses
from allotment.cel.evaluation import float_format
from allotment.cel.evaluation.library import conversions
from allotment.cel.evaluation.library.arithmetic import MAX_STRING_LENGTH
from allotment.cel.evaluation.values import (
    CelError,
    CostLimitExceeded,
    Duration,
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
#: The maximum number of fraction digits of a double.
_ALL_DIGITS: Final = 1074
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL: Final = frozenset({"NaN", "Infinity", "-Infinity"})

_NOT_A_STRING: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given "
)


class _OutputBudget:
    """The remaining length of the output: the text of values that share parts can grow exponentially."""

    __slots__ = ("remaining",)

    def __init__(self) -> None:
        self.remaining = MAX_STRING_LENGTH

    def spend(self, text: str) -> str:
        self.remaining -= len(text) + 1
        if self.remaining < 0:
            raise CostLimitExceeded
        return text


def format_string(text: str, arguments: ListValue) -> str:
    """Replaces the clauses of a format string by the formatted arguments."""
    budget = _OutputBudget()
    parts: list[str] = []
    try:
        for piece in clauses(text, arguments.size):
            if isinstance(piece, Clause):
                parts.append(budget.spend(_formatted(piece, arguments.at(piece.argument), budget)))
            else:
                parts.append(piece)
    except FormatError as error:
        raise CelError(str(error)) from None
    return "".join(parts)


def _formatted(clause: Clause, value: Value, budget: _OutputBudget) -> str:
    precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    try:
        match clause.letter:
            case "s":
                return _text(value, budget)
            case "d":
                return _decimal(value)
            case "f":
                return _fixed(value, precision)
            case "e":
                return _scientific(value, precision)
            case "b":
                return _binary(value)
            case "o":
                return _octal(value)
            case _:
                return _hexadecimal(value, clause.letter)
    except CelError as failure:
        raise CelError(f"error during formatting: {failure}") from None


def _text(value: Value, budget: _OutputBudget) -> str:
    kind = type(value)
    if kind is ListValue:
        return _list(value, budget)
    if kind is MapValue:
        return _map(value, budget)
    if value is None:
        return "null"
    if kind is bytes:
        try:
            return conversions.to_text(value)
        except CelError as failure:
            raise CelError(f"could not convert argument {quote(str(failure))} to string") from None
    if kind in _CONVERTIBLE:
        return conversions.to_text(value)
    raise CelError(_NOT_A_STRING + type_name(value))


_CONVERTIBLE: Final = frozenset({str, bool, int, Uint, float, Duration, Timestamp, TypeValue})


def _decimal(value: Value) -> str:
    if type(value) is int or type(value) is Uint:
        return str(int(value))
    raise CelError(f"decimal clause can only be used on integers, was given {type_name(value)}")


def _double(value: Value, clause: str) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in _SPECIAL:
        return float(value)
    raise CelError(f"{clause} clause can only be used on doubles, was given {type_name(value)}")


def _fixed(value: Value, precision: int) -> str:
    """``%.Nf``. Upstream stores the precision in narrow integers: N modulo 2^8 is the minimum number of fraction
    digits, N modulo 2^16, as an int16, the maximum; a negative maximum means as many as needed."""
    number = _double(value, "fixed-point")
    if not math.isfinite(number):
        return _not_finite(number)
    least, most = precision & 0xFF, precision & 0xFFFF
    if most < 0x8000:
        text = f"{abs(number):,.{min(most, _ALL_DIGITS)}f}"
    else:
        whole, _, fraction = float_format.format_shortest_f(abs(number)).partition(".")
        text = f"{int(whole):,}.{fraction}"
    whole, _, fraction = text.partition(".")
    fraction = fraction[:least].ljust(least, "0") + fraction[least:].rstrip("0")
    return f"{'-' if number < 0 else ''}{whole}{'.' if fraction else ''}{fraction}"


def _scientific(value: Value, precision: int) -> str:
    """``%.Ne``. Upstream uses the precision as a width; there are always six fraction digits."""
    number = _double(value, "scientific")
    width = precision & 0xFFFF
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    mantissa, _, exponent = f"{abs(number):.6e}".partition("e")
    power = ("-" if exponent[0] == "-" else "") + exponent[1:].zfill(2)
    return f"{'-' if number < 0 else ''}{mantissa}×10{power.translate(_SUPERSCRIPTS)}".rjust(width)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return ""


def _binary(value: Value) -> str:
    kind = type(value)
    if kind is bool:
        return "1" if value else "0"
    if kind is int or kind is Uint:
        return format(int(value), "b")
    raise CelError(f"only integers and bools can be formatted as binary, was given {type_name(value)}")


def _hexadecimal(value: Value, letter: str) -> str:
    kind = type(value)
    if kind is str or kind is bytes:
        digits: str = (value if kind is bytes else conversions.string_to_bytes(value)).hex()
        return digits.upper() if letter == "X" else digits
    if kind is int or kind is Uint:
        return format(int(value), letter)
    raise CelError(f"only integers, byte buffers, and strings can be formatted as hex, was given {type_name(value)}")


def _octal(value: Value) -> str:
    if type(value) is int or type(value) is Uint:
        return format(int(value), "o")
    raise CelError(f"octal clause can only be used on integers, was given {type_name(value)}")


# --- values inside lists and maps, formatted as CEL literals -------------------------------------------------------


def _literal(value: Value, budget: _OutputBudget) -> str:
    kind = type(value)
    if kind is ListValue:
        return _list(value, budget)
    if kind is MapValue:
        return _map(value, budget)
    return budget.spend(_simple_literal(value, kind, budget))


def _simple_literal(value: Value, kind: type, budget: _OutputBudget) -> str:
    if kind is str:
        return quote(value)
    if kind is bytes:
        return "b" + quote(_text(value, budget))
    if kind is float:
        if math.isfinite(value):
            return f"{value:.6f}"
        return quote("NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf")
    if kind is Timestamp or kind is Duration:
        name = "timestamp" if kind is Timestamp else "duration"
        return f"{name}({quote(conversions.to_text(value))})"
    if value is None or kind in _CONVERTIBLE:
        return _text(value, budget)
    raise CelError(f"no formatting function for {type_name(value)}")


def _list(value: ListValue, budget: _OutputBudget) -> str:
    parts = [_literal(item, budget) for item in value.items]
    return "[" + ", ".join(parts) + "]"


def _map(value: MapValue, budget: _OutputBudget) -> str:
    pairs: list[tuple[str, str]] = []
    for key, item in value.entries.values():
        if type(key) not in (str, bool, int, Uint):
            raise CelError(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((budget.spend(_simple_literal(key, type(key), budget)), _literal(item, budget)))
    pairs.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
