"""Functions on Kubernetes quantities and semantic versions, whose values are those of :mod:`allotment.model`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.cel.evaluation.values import CelError, QuantityPointer, Value
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.semver import Semver, SemverError

_INT64_SIGN: Final = 1 << 63


def quantity(text: str) -> Quantity:
    """Parses a quantity. Raises CelError."""
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise CelError(str(error)) from None


def is_quantity(text: str) -> bool:
    """Whether the text is a valid quantity."""
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def as_integer(value: Quantity) -> int:
    """The quantity as an int. Raises CelError unless upstream represents it as an integer."""
    try:
        return value.as_integer()
    except QuantityError as error:
        raise CelError(str(error)) from None


def _compare_versions(left: Semver, right: Semver) -> int:
    return (left > right) - (left < right)


def _compare_quantities(left: Quantity, right: Quantity) -> int:
    a, b = left.nano, right.nano
    return (a > b) - (a < b)


def semver(text: str, normalize: bool = False) -> Semver:
    """Parses a semantic version. Raises CelError."""
    try:
        return Semver.parse(text, normalize)
    except SemverError as error:
        raise CelError(str(error)) from None


def is_semver(text: str, normalize: bool = False) -> bool:
    """Whether the text is a valid semantic version."""
    try:
        Semver.parse(text, normalize)
    except SemverError:
        return False
    return True


def _signed(number: int) -> int:
    """Converts a uint64 to int64 as Go does."""
    return number - (1 << 64) if number >= _INT64_SIGN else number


def _minus_int(left: Quantity, right: int) -> QuantityPointer:
    if right == -(2**63) and left.is_integer() and left.sign() >= 0:
        # Upstream adds the negated int64, and the minimum int64 is its own negation.
        return QuantityPointer.from_quantity(left.add(Quantity.of_int(right)))
    return QuantityPointer.from_quantity(left.sub(Quantity.of_int(right)))


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "string_to_quantity": quantity,
    "is_quantity_string": is_quantity,
    "quantity_sign": Quantity.sign,
    "quantity_is_greater_than": lambda left, right: left.nano > right.nano,
    "quantity_is_less_than": lambda left, right: left.nano < right.nano,
    "quantity_compare_to": _compare_quantities,
    "quantity_get_float": Quantity.approximate_float,
    "quantity_get_int": as_integer,
    "quantity_is_integer": Quantity.is_integer,
    "quantity_add": lambda left, right: QuantityPointer.from_quantity(left.add(right)),
    "quantity_add_int": lambda left, right: QuantityPointer.from_quantity(left.add(Quantity.of_int(right))),
    "quantity_sub": lambda left, right: QuantityPointer.from_quantity(left.sub(right)),
    "quantity_sub_int": _minus_int,
    "string_to_semver": semver,
    "string_bool_to_semver": semver,
    "is_semver_string": is_semver,
    "is_semver_string_bool": is_semver,
    "semver_is_greater_than": lambda left, right: left > right,
    "semver_is_less_than": lambda left, right: left < right,
    "semver_compare_to": _compare_versions,
    "semver_major": lambda version: _signed(version.major),
    "semver_minor": lambda version: _signed(version.minor),
    "semver_patch": lambda version: _signed(version.patch),
}
