"""Formatting of floating-point numbers as in Go, with the shortest digits that parse to the same number."""

from __future__ import annotations

import math


def format_shortest_g(value: float) -> str:
    """Go's ``%g`` with the shortest digits: with an exponent, of at least two digits, if it is < -4 or >= 6.

    >>> format_shortest_g(1.0), format_shortest_g(123456.0), format_shortest_g(1e6), format_shortest_g(0.00001)
    ('1', '123456', '1e+06', '1e-05')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _shortest_digits(value)
    if exponent < -4 or exponent >= 6:
        return _exponential(sign, digits, exponent)
    return _positional(sign, digits, exponent)


def format_shortest_f(value: float) -> str:
    """Go's ``%f`` with the shortest digits, without an exponent; the value must be finite."""
    sign, digits, exponent = _shortest_digits(value)
    return _positional(sign, digits, exponent)


def _shortest_digits(value: float) -> tuple[str, str, int]:
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


def _positional(sign: str, digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if len(digits) <= exponent + 1:
        return f"{sign}{digits.ljust(exponent + 1, '0')}"
    return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
