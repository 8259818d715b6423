"""Conversions between types: ``int("7")``, ``string(1.5)``, ``timestamp(0)``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

from allotment.cel.evaluation import float_format, timestamps
from allotment.cel.evaluation.library.arithmetic import checked_int64, checked_uint64
from allotment.cel.evaluation.values import CelError, Duration, Timestamp, TypeValue, Uint, Value, type_name

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED: Final = re.compile(r"[0-9]+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+", re.ASCII
)
_SPECIAL: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE | re.ASCII)
_MISPLACED_UNDERSCORE: Final = re.compile(r"(?<![0-9a-fA-F])_|_(?![0-9a-fA-F])", re.ASCII)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _unconvertible(target: str) -> CelError:
    return CelError(f"type conversion error from 'string' to '{target}'")


def _digits(text: str, limit: int) -> int | None:
    """The value of signed decimal digits; None if there are more than ``limit`` significant ones."""
    significant = text.lstrip("+-").lstrip("0")
    if len(significant) > limit:
        return None
    return int(significant or "0") * (-1 if text[0] == "-" else 1)


def string_to_int(text: str) -> int:
    """Go's ``ParseInt`` in base ten."""
    number = _digits(text, 19) if _INTEGER.fullmatch(text) else None
    if number is None or not -(2**63) <= number < 2**63:
        raise _unconvertible("int")
    return number


def string_to_uint(text: str) -> Uint:
    """Go's ``ParseUint`` in base ten."""
    number = _digits(text, 20) if _UNSIGNED.fullmatch(text) else None
    if number is None or number >= 2**64:
        raise _unconvertible("uint")
    return Uint(number)


def string_to_double(text: str) -> float:
    """Go's ``ParseFloat``: decimal and hexadecimal, underscores between digits, infinities and NaN by name."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    plain = text
    if "_" in text:
        hexadecimal = text.lstrip("+-")[:2] in ("0x", "0X")
        checked = text.replace("0x_", "0x0_").replace("0X_", "0X0_") if hexadecimal else text
        if _MISPLACED_UNDERSCORE.search(checked) or (not hexadecimal and re.search(r"[a-fA-F]_|_[a-fA-F]", text)):
            raise _unconvertible("double")
        plain = text.replace("_", "")
    try:
        if _DECIMAL.fullmatch(plain):
            number = float(plain)
        elif _HEXADECIMAL.fullmatch(plain):
            number = float.fromhex(plain)
        else:
            raise _unconvertible("double")
    except OverflowError:
        raise _unconvertible("double") from None
    if math.isinf(number):
        raise _unconvertible("double")
    return number


def string_to_bool(text: str) -> bool:
    """Go's ``ParseBool``."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _unconvertible("bool")


def int_to_duration(number: int) -> Duration:
    """Declared upstream, but not implemented: it always fails."""
    raise CelError("type conversion error from 'int' to 'google.protobuf.Duration'")


def string_to_duration(text: str) -> Duration:
    """Go's ``ParseDuration``."""
    found = timestamps.parse_duration(text)
    if found is None:
        raise _unconvertible("google.protobuf.Duration")
    return found


def string_to_timestamp(text: str) -> Timestamp:
    """Parses RFC 3339."""
    found = timestamps.parse_timestamp(text)
    if found is None:
        raise _unconvertible("google.protobuf.Timestamp")
    return found


def double_to_int(value: float) -> int:
    """Truncates a double, which must be strictly inside the range of int64."""
    if not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


def double_to_uint(value: float) -> Uint:
    """Truncates a double, which must be >= 0 and < 2^64."""
    if not 0 <= value < 2.0**64:
        raise CelError("unsigned integer overflow")
    return Uint(int(value))


def bytes_to_string(value: bytes) -> str:
    """Decodes UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def string_to_bytes(text: str) -> bytes:
    """Encodes UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def type_of(value: Value) -> TypeValue:
    """``type(value)``"""
    return TypeValue(type_name(value))


def same(value: Value) -> Value:
    """A conversion to the type that the value already has."""
    return value


def to_text(value: Value) -> str:
    """``string(value)`` for the types that support it, also used by ``%s`` of ``format``."""
    return _TEXTS[type(value)](value)


_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    str: str, bool: lambda v: "true" if v else "false", int: str, Uint: lambda v: str(int(v)),
    float: float_format.format_shortest_g, bytes: bytes_to_string, Duration: timestamps.format_duration,
    Timestamp: timestamps.format_timestamp, TypeValue: lambda v: v.name,
}  # fmt: skip

OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "bool_to_bool": same, "string_to_bool": string_to_bool,
    "bytes_to_bytes": same, "string_to_bytes": string_to_bytes,
    "double_to_double": same, "int64_to_double": float, "uint64_to_double": float, "string_to_double": string_to_double,
    "duration_to_duration": same, "int64_to_duration": int_to_duration, "string_to_duration": string_to_duration,
    "int64_to_int64": same, "double_to_int64": double_to_int, "duration_to_int64": lambda v: v.ns,
    "string_to_int64": string_to_int, "timestamp_to_int64": lambda v: v.ns // timestamps.SECOND,
    "uint64_to_int64": lambda v: checked_int64(int(v)),
    "string_to_string": same, "bool_to_string": to_text, "bytes_to_string": to_text, "double_to_string": to_text,
    "duration_to_string": to_text, "int64_to_string": to_text, "timestamp_to_string": to_text,
    "uint64_to_string": to_text,
    "timestamp_to_timestamp": same, "int64_to_timestamp": lambda v: timestamps.timestamp(v * timestamps.SECOND),
    "string_to_timestamp": string_to_timestamp,
    "uint64_to_uint64": same, "double_to_uint64": double_to_uint, "int64_to_uint64": checked_uint64,
    "string_to_uint64": string_to_uint,
}  # fmt: skip

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {"type": type_of, "dyn": same}

#: Functions whose calls on constants are folded at compile time.
FOLDED: Final = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})
