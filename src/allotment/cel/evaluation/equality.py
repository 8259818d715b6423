"""Equality and order of values at run time, including upstream's inconsistencies.

Values of different types are not equal, but comparing a Kubernetes value on the left with a value of another type is an
error. As upstream, such an error inside a list or map counts as *equal*, except in a list concatenated with ``+``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from allotment.cel.evaluation.values import (
    ABSENT,
    CelError,
    Duration,
    ListValue,
    MapValue,
    Optional,
    QuantityPointer,
    Timestamp,
    TypeValue,
    Uint,
    Value,
)
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

NO_SUCH_OVERLOAD: Final = "no such overload"
_PLAIN: Final = frozenset({str, int, bool, bytes, float, Uint, type(None)})
_NUMBERS: Final = frozenset({int, Uint, float})
#: Types whose equality is Python's, so that homogeneous lists of them are compared by Python.
_EXACT: Final = frozenset({str, int, bytes, bool})


def equal(left: Value, right: Value) -> bool:
    """``left == right``. Raises CelError for some pairs of types, as upstream."""
    kind = type(left)
    other_kind = type(right)
    if kind is other_kind and kind in _PLAIN:
        return left == right
    if left is None or right is None:
        return left is right
    return _equal_values(left, right, kind, other_kind)


def _equal_values(left: Value, right: Value, kind: type, other_kind: type) -> bool:
    if kind in _NUMBERS:
        if other_kind not in _NUMBERS:
            return False
        if kind is float:
            return left == float(right)
        if other_kind is float:
            return float(left) == right
        return int(left) == int(right)
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(left, right)
    if kind in _PLAIN:
        return False
    if kind is not other_kind:
        raise CelError(NO_SUCH_OVERLOAD)
    return left == right


def equal_in_search(left: Value, right: Value) -> bool:
    """Equality in searches (``in``, ``indexOf``, ``distinct``, ``includes``): an error means not equal."""
    kind = type(left)
    if kind is type(right) and kind in _PLAIN:
        return left == right
    try:
        return equal(left, right)
    except CelError:
        return False


def _equal_lists(left: ListValue, right: Value) -> bool:
    if type(right) is not ListValue or left.size != right.size:
        return False
    kinds = {type(item) for item in left.items}
    if kinds <= _EXACT and len(kinds) == 1 and kinds == {type(item) for item in right.items}:
        return list(left.items) == list(right.items)
    failed: CelError | None = None
    for a, b in zip(left.items, right.items, strict=True):
        try:
            if not equal(a, b):
                return False
        except CelError as failure:
            failed = failed or failure
    if failed is not None and left.is_concatenation:
        raise failed
    return True


def _equal_maps(left: MapValue, right: Value) -> bool:
    if type(right) is not MapValue or len(left.entries) != len(right.entries):
        return False
    for key, value in left.entries.values():
        other = right.find(key)
        if other is ABSENT:
            return False
        try:
            if not equal(value, other):
                return False
        except CelError:
            continue
    return True


def _equal_optionals(left: Optional, right: Value) -> bool:
    if type(right) is not Optional:
        return False
    a, b = left.value, right.value
    if a is ABSENT or b is ABSENT:
        return a is b
    if isinstance(a, CelError):
        raise a
    if b is None and a is not None:
        # The contents are compared without the special case for null.
        return _equal_values(a, b, type(a), type(None))
    return equal(a, b)


def _equal_quantities(left: Quantity, right: Value) -> bool:
    # Upstream does not dereference a pointer (the result of add or sub) on the right.
    if type(right) is not Quantity:
        raise CelError(NO_SUCH_OVERLOAD)
    return left.nano == right.nano


def _equal_versions(left: Semver, right: Value) -> bool:
    if type(right) is not Semver:
        raise CelError(NO_SUCH_OVERLOAD)
    return left == right


def _equal_durations(left: Duration, right: Value) -> bool:
    return type(right) is Duration and left.ns == right.ns


def _equal_timestamps(left: Timestamp, right: Value) -> bool:
    return type(right) is Timestamp and left.ns == right.ns


def _equal_types(left: TypeValue, right: Value) -> bool:
    return type(right) is TypeValue and left.name == right.name


_RULES: Final[dict[type, Callable[..., bool]]] = {
    ListValue: _equal_lists, MapValue: _equal_maps, Optional: _equal_optionals, Quantity: _equal_quantities,
    QuantityPointer: _equal_quantities, Semver: _equal_versions, Duration: _equal_durations,
    Timestamp: _equal_timestamps, TypeValue: _equal_types,
}  # fmt: skip

# --- order -------------------------------------------------------------------------------------------------------

#: Types with an order; for other types the comparison fails.
COMPARABLE: Final = frozenset({str, int, Uint, float, bool, bytes, Duration, Timestamp})


def compare(left: Value, right: Value) -> Literal[-1, 0, 1]:
    """-1, 0 or 1 for two values; ``left`` must be of a comparable type. Raises CelError for pairs without an order."""
    kind = type(left)
    other_kind = type(right)
    if kind is float and left != left:
        raise CelError("NaN values cannot be ordered")
    a, b = left, right
    if kind in _NUMBERS and other_kind in _NUMBERS:
        if other_kind is float and right != right:
            raise CelError("NaN values cannot be ordered")
        if kind is not other_kind and (kind is float or other_kind is float):
            a, b = float(left), float(right)
    elif kind is not other_kind:
        raise CelError(NO_SUCH_OVERLOAD)
    elif kind is Duration or kind is Timestamp:
        a, b = left.ns, right.ns
    if a < b:
        return -1
    return 1 if b < a else 0
