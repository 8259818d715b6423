"""Resolves plain YAML scalars as kubectl does: YAML 1.1 as its Go library parses it, then converted to JSON.

``yes`` and ``on`` are true, ``010`` is eight, ``1_000`` is a thousand, dates stay strings, and the key ``y`` becomes
``"true"``. Numbers are converted through JSON: ``8.0`` becomes the integer 8.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from decimal import Decimal
from typing import Any, Final

_CONSTANTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))", re.ASCII)
_UNSIGNED_MAX: Final = 2**64 - 1
_SIGNED_MIN: Final = -(2**63)
_PREFIX: Final = "tag:yaml.org,2002:"
_TAG_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,), "int": (int,), "float": (int, float), "null": (type(None),), "timestamp": (str,),
}  # fmt: skip


class ScalarError(ValueError):
    """Raised when a scalar contradicts its explicit tag or cannot be represented in JSON."""


def plain_value(text: str) -> Any:
    """The JSON value of an untagged, unquoted scalar."""
    first = text[:1]
    if first not in _FIRST_CHARACTERS:
        return text
    if text in _CONSTANTS:
        value = _CONSTANTS[text]
        if type(value) is float:
            raise ScalarError(f"{text} cannot be represented in JSON")
        return value
    return _number(text) if first in _NUMERIC else text


def tagged_value(tag: str, text: str) -> Any:
    """The JSON value of a scalar with an explicit tag; with a tag that YAML does not define it is a string."""
    if not tag.startswith(_PREFIX):
        return text
    name = tag[len(_PREFIX) :]
    if name == "binary":
        try:
            return base64.b64decode(re.sub(r"\s", "", text), validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise ScalarError("!!binary value contains invalid base64 data") from error
    expected = _TAG_TYPES.get(name)
    if expected is None:
        return text
    value = plain_value(text)
    if name == "timestamp":
        return text
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise ScalarError(f"cannot decode `{text}` as a !!{name}")
    return value


def key_string(value: Any) -> str:
    """The JSON key of a mapping key that is not a string."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ScalarError("a key must be a string, a number or a boolean" if value is not None else "a key is null")


def json_float(number: float) -> int | float:
    """A float as Go prints and parses it: integral values below 1e21 become integers."""
    if number.is_integer() and abs(number) < 1e21:
        return int(Decimal(repr(number)))
    return number


def _number(text: str) -> Any:
    # A number can contain underscores unless it starts with a decimal point.
    digits = text if text.startswith(".") else text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match:
        sign, hexadecimal, binary, octal, decimal = match.groups()
        if len(digits) <= 80:
            value = (
                int(hexadecimal, 16) if hexadecimal
                else int(binary, 2) if binary
                else int(octal, 8) if octal
                else int(decimal)
            )  # fmt: skip
            # Go tries a signed integer, an unsigned one if there is no sign, and then a float.
            if sign == "-" and -value >= _SIGNED_MIN:
                return -value
            if value <= (_UNSIGNED_MAX if not sign else -_SIGNED_MIN - 1) and sign != "-":
                return value
    if _FLOAT.fullmatch(digits):
        try:
            number = float(digits)
        except ValueError:
            return text
        # Go's ParseFloat fails on overflow; the scalar is then a string.
        return text if math.isinf(number) else json_float(number)
    return text


_NUMERIC: Final = frozenset("+-.0123456789")
_FIRST_CHARACTERS: Final = _NUMERIC | frozenset("yYnNtTfFoO~") | {""}
