"""Resource quantities such as ``40Gi``, ``500m`` or ``1e3``: exact values that keep their notation.

A quantity has a value, an exact multiple of one nano, and a *representation* that users can observe: the suffix family
decides how sums are printed, and whether Go holds the number in 64 bits or as an arbitrary decimal decides the results
of CEL's ``isInteger`` and ``asInteger`` (``1Ti`` is an integer, ``1Pi`` is not). Equality, order and hash depend on the
value only.

Two upstream bugs are not repeated: addition never changes the receiver, and a decimal value above ``999E`` is printed
with an exponent (Kubernetes 1.36 prints ``1000E`` as ``1``). One limit is Allotment's: more than four thousand digits,
or a larger exponent, are rejected, because upstream would need minutes and gigabytes for them.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from typing import Any, ClassVar, Final, Literal

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

_WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_BAD_NUMBER: Final = "unable to parse numeric part of quantity"
_BAD_SUFFIX: Final = "unable to parse quantity's suffix"
_NOT_AN_INTEGER: Final = "cannot convert value to integer"

_SHAPE: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*)([+-]?[0-9]*)", re.ASCII)
_STARTS_WITH_DIGITS: Final = re.compile(r"[+-]?\.?[0-9]", re.ASCII)
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = ("", *_BINARY_SUFFIXES)

_NANO: Final = 10**9
_NANO_POWERS: Final = tuple(10**power for power in range(28))
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_SMALL_DIGITS: Final = 18
_MAX_DIGITS: Final = 4000


class QuantityError(ValueError):
    """Raised if text is not a quantity, or a quantity is not an integer; the text is Kubernetes' own."""


class Quantity:
    """An exact amount. Created with ``parse``, ``of_int`` or ``binary``.

    ``nano``: the value in units of 10^-9. ``is_small``: whether Go holds it as a 64-bit ``mantissa`` times ten to the
    power ``scale``; otherwise it is an arbitrary decimal with the same two parts.

    >>> Quantity.parse("1.5Gi") == Quantity.parse("1536Mi"), str(Quantity.parse("1.5Gi"))
    (True, '1536Mi')
    """

    __slots__ = ("_text", "format", "is_small", "mantissa", "nano", "scale")

    ZERO: ClassVar[Quantity]

    nano: int
    format: Format
    is_small: bool
    mantissa: int
    scale: int
    _text: str | None

    def __init__(self, mantissa: int, scale: int, is_small: bool, format: Format, text: str | None = None) -> None:
        shift = scale + 9
        set_field = object.__setattr__
        set_field(self, "nano", mantissa * (_NANO_POWERS[shift] if shift < 28 else 10**shift))
        set_field(self, "format", format)
        set_field(self, "is_small", is_small)
        set_field(self, "mantissa", mantissa)
        set_field(self, "scale", scale)
        set_field(self, "_text", text)

    # --- constructors --------------------------------------------------------------------------------------------

    @staticmethod
    def parse(text: str) -> Quantity:
        """Parse a quantity. Raises ``QuantityError`` with upstream's text."""
        return _parse_cached(text) if len(text) <= 32 else _parse(text)

    @staticmethod
    def of_int(number: int) -> Quantity:
        """A plain decimal quantity, as Go's ``NewQuantity(n, DecimalSI)``."""
        return Quantity(number, 0, _INT64_MIN <= number <= _INT64_MAX, "DecimalSI")

    @staticmethod
    def binary(number: int) -> Quantity:
        """A quantity that prints with Ki, Mi, Gi …, as Go's ``NewQuantity(n, BinarySI)``."""
        return Quantity(number, 0, _INT64_MIN <= number <= _INT64_MAX, "BinarySI")

    # --- value ---------------------------------------------------------------------------------------------------

    def value(self) -> int:
        """Go's ``Value()``: the value as an integer, rounded away from zero."""
        integer, rest = divmod(abs(self.nano), _NANO)
        return (integer + (rest > 0)) * self.sign()

    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nano > 0) - (self.nano < 0)

    def is_integer(self) -> bool:
        """Whether ``as_integer`` succeeds. This depends on the representation: it is false for ``1.0`` and ``1Pi``."""
        return self._int64() is not None

    def as_integer(self) -> int:
        """The value as a 64-bit integer. Raises ``QuantityError`` if the representation is not an integer."""
        number = self._int64()
        if number is None:
            raise QuantityError(_NOT_AN_INTEGER)
        return number

    def approximate_float(self) -> float:
        """Go's ``AsApproximateFloat64``: mantissa times a power of ten, each rounded; infinite if out of range."""
        try:
            base = float(self.mantissa)
        except OverflowError:
            base = float("inf") if self.mantissa > 0 else float("-inf")
        return base if self.scale == 0 else base * _go_power_of_ten(self.scale)

    def __int__(self) -> int:
        return self.value()

    def __float__(self) -> float:
        return self.approximate_float()

    def _int64(self) -> int | None:
        if not self.is_small or self.scale < 0:
            return None
        number = self.nano // _NANO
        return number if _INT64_MIN <= number <= _INT64_MAX else None

    # --- arithmetic ----------------------------------------------------------------------------------------------

    def add(self, other: Quantity) -> Quantity:
        """The sum, with the suffix family of this quantity, or of the other one if this one is zero."""
        return self._plus(other.mantissa, other)

    def sub(self, other: Quantity) -> Quantity:
        """The difference, with the suffix family as in ``add``."""
        return self._plus(-other.mantissa, other)

    def __add__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.add(other)

    def __sub__(self, other: Quantity) -> Quantity:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.sub(other)

    def _plus(self, mantissa: int, other: Quantity) -> Quantity:
        format = self.format if self.mantissa else other.format
        both_small = self.is_small and other.is_small
        if both_small and not mantissa:
            return Quantity(self.mantissa, self.scale, True, format)
        if both_small and not self.mantissa:
            return Quantity(mantissa, other.scale, _INT64_MIN <= mantissa <= _INT64_MAX, format)
        # Go uses the finer of the two scales; both addends must fit in 64 bits at this scale.
        scale = min(self.scale, other.scale)
        left = self.mantissa * 10 ** (self.scale - scale)
        right = mantissa * 10 ** (other.scale - scale)
        total = left + right
        fits = all(_INT64_MIN <= number <= _INT64_MAX for number in (left, right, total))
        return Quantity(total, scale, both_small and fits, format)

    # --- text ----------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = _canonical(self)
            object.__setattr__(self, "_text", text)
        return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    # --- comparison by value -------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    # --- immutability --------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"quantities are immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"quantities are immutable: cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Quantity, (self.mantissa, self.scale, self.is_small, self.format, self._text)

    def __copy__(self) -> Quantity:
        return self

    def __deepcopy__(self, memo: object) -> Quantity:
        return self


def _parse(text: str) -> Quantity:
    shape = _SHAPE.fullmatch(text) if text else None
    if shape is None:
        raise QuantityError(_WRONG_FORMAT)
    if text == "0":
        return Quantity(0, 0, True, "DecimalSI", text)
    sign, integer, fraction, letters, tail = shape.groups(default="")
    if len(integer) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(_BAD_NUMBER)
    format, exponent = _suffix(letters, tail)
    digits = (integer or "0") + fraction
    number = -int(digits) if sign == "-" else int(digits)
    if format == "BinarySI":
        return _parse_binary(text, number, len(integer or "0"), fraction, exponent)
    scale = exponent - len(fraction)
    if len(digits) <= _SMALL_DIGITS and scale >= -9:
        # Go keeps text that looks canonical, which users can observe (``00001`` stays).
        as_written = scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
        return Quantity(number, scale, True, format, text if as_written else None)
    if number == 0:
        _require_digits(text)
        return Quantity(0, max(scale, -9), False, format)
    return Quantity(_nano_rounded_up(number, scale), -9, False, format)


def _parse_binary(text: str, number: int, whole_digits: int, fraction: str, exponent: int) -> Quantity:
    # Upstream estimates the decimal digits of 2**exponent; above 15 digits in total it uses arbitrary decimals.
    if not fraction and 15 - whole_digits - exponent * 3 // 10 - 1 >= 0:
        as_written = number & 7 != 0
        return Quantity(number << exponent, 0, True, "BinarySI", text if as_written else None)
    if number == 0:
        _require_digits(text)
        return Quantity(0, max(-len(fraction), -9), False, "BinarySI")
    nano = _nano_rounded_up(number << exponent, -len(fraction))
    if abs(nano) > _INT64_MAX * _NANO:
        return Quantity(_INT64_MAX if nano > 0 else -_INT64_MAX, 0, False, "BinarySI")
    return Quantity(nano, -9, False, "DecimalSI" if abs(nano) < _NANO else "BinarySI")


_parse_cached = functools.lru_cache(maxsize=65536)(_parse)


def _suffix(letters: str, tail: str) -> tuple[Format, int]:
    if not tail:
        decimal = _DECIMAL_SUFFIXES.get(letters)
        if decimal is not None:
            return "DecimalSI", decimal
        binary = _BINARY_SUFFIXES.get(letters)
        if binary is not None:
            return "BinarySI", binary
    if letters in ("e", "E") and tail.strip("+-") and len(tail) <= 20:
        exponent = int(tail)
        if exponent <= _MAX_DIGITS:
            return "DecimalExponent", exponent
    raise QuantityError(_BAD_SUFFIX)


def _require_digits(text: str) -> None:
    """Outside Go's 64-bit form a bare suffix is an error (``Ei``, ``e-12``), while ``Gi`` is read as zero."""
    if not _STARTS_WITH_DIGITS.match(text):
        raise QuantityError(_BAD_NUMBER)


def _nano_rounded_up(number: int, scale: int) -> int:
    """``number`` times ten to the power ``scale`` in nanos, rounded away from zero."""
    shift = scale + 9
    if shift >= 0:
        return number * int(10**shift)
    if -shift > _MAX_DIGITS * 2:
        return 1 if number > 0 else -1
    rounded = -(-abs(number) // int(10**-shift))
    return rounded if number > 0 else -rounded


def _canonical(quantity: Quantity) -> str:
    nano = quantity.nano
    if nano == 0:
        return "0"
    integer, rest = divmod(nano, _NANO)
    if quantity.format == "BinarySI" and rest == 0 and abs(integer) >= 1024:
        times = 0
        while times < len(_BINARY_NAMES) - 1 and integer % 1024 == 0:
            integer //= 1024
            times += 1
        return _digits(integer) + _BINARY_NAMES[times]
    exponent = -9
    while nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    if quantity.format != "DecimalExponent" and exponent in _DECIMAL_NAMES:
        return _digits(nano) + _DECIMAL_NAMES[exponent]
    return _digits(nano) + (f"e{exponent}" if exponent else "")


def _digits(number: int) -> str:
    # Unlike str(int), Decimal has no limit on the number of digits; sums of long quantities can exceed that limit.
    return str(number) if abs(number) <= _INT64_MAX else format(Decimal(number), "f")


def _go_power_of_ten(exponent: int) -> float:
    """Go's ``math.Pow10``: a product of two table entries, which is not always the nearest double."""
    if exponent > 308:
        return float("inf")
    if exponent < -323:
        return 0.0
    coarse, fine = divmod(abs(exponent), 32)
    if exponent >= 0:
        return float(f"1e{coarse * 32}") * float(f"1e{fine}")
    return float(f"1e-{coarse * 32}") / float(f"1e{fine}")


Quantity.ZERO = Quantity.parse("0")
