"""Formats decoded JSON as Go's ``%v`` does, for error messages: ``map[image:x name:a]``, keys sorted."""

from __future__ import annotations

from typing import Any


def format_value(value: Any) -> str:
    """The value as Go's fmt prints decoded JSON."""
    if type(value) is dict:
        return f"map[{' '.join(f'{key}:{format_value(value[key])}' for key in sorted(value))}]"
    if type(value) is list:
        return f"[{' '.join(map(format_value, value))}]"
    if value is None:
        return "<nil>"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float:
        return _format_float(value)
    return str(value)


def _format_float(value: float) -> str:
    """``%v`` of a float64: the shortest digits, with an exponent below 1e-4 and from 1e21 on."""
    if value == 0 or 1e-4 <= abs(value) < 1e21:
        if value.is_integer():
            return str(int(value))
        text = repr(value)
        if "e" not in text:
            return text
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        mantissa, _, exponent = f"{value:e}".partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+03d}"
