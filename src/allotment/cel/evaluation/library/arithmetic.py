"""Operators on values: arithmetic, order, membership, size.

Each is one function for all types, as upstream. The error for unsupported operands depends on the type of the left one:
``no such overload`` for strings, timestamps and durations, otherwise the text also contains the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from allotment.cel.evaluation import timestamps
from allotment.cel.evaluation.equality import COMPARABLE, NO_SUCH_OVERLOAD, compare, equal_in_search
from allotment.cel.evaluation.values import (
    CelError,
    CostLimitExceeded,
    Duration,
    ListValue,
    MapValue,
    Timestamp,
    Uint,
    Value,
)

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
#: Longer strings exceed the cost limit.
MAX_STRING_LENGTH: Final = 1 << 24

_RECEIVER_TYPES: Final = frozenset({str, Timestamp, Duration})
_ADD_TYPES: Final = frozenset({bytes, float, Duration, int, ListValue, str, Timestamp, Uint})
_SUBTRACT_TYPES: Final = frozenset({float, Duration, int, Timestamp, Uint})
_MULTIPLY_TYPES: Final = frozenset({float, int, Uint})
_MODULO_TYPES: Final = frozenset({int, Uint})


def raise_no_such_overload(operator: str, left: Value) -> NoReturn:
    """Raises upstream's error for an operator that the type of the left operand does not support."""
    raise CelError(NO_SUCH_OVERLOAD if type(left) in _RECEIVER_TYPES else f"no such overload: {operator}")


def _raise_mismatch() -> NoReturn:
    raise CelError(NO_SUCH_OVERLOAD)


def checked_int64(value: int) -> int:
    """Returns an int64. Raises CelError on overflow."""
    if _INT64_MIN <= value <= _INT64_MAX:
        return value
    raise CelError("integer overflow")


def checked_uint64(value: int) -> Uint:
    """Returns a uint64. Raises CelError on overflow."""
    if 0 <= value <= _UINT64_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def add(left: Value, right: Value) -> Value:
    """``left + right``"""
    kind = type(left)
    if kind not in _ADD_TYPES:
        raise_no_such_overload("_+_", left)
    other_kind = type(right)
    if kind is Duration or kind is Timestamp:
        return _add_time(left, right, kind, other_kind)
    if kind is not other_kind:
        _raise_mismatch()
    if kind is int:
        return checked_int64(left + right)
    if kind is Uint:
        return checked_uint64(int(left) + int(right))
    if kind is ListValue:
        return ListValue.concat(left, right)
    if kind is not float and len(left) + len(right) > MAX_STRING_LENGTH:
        raise CostLimitExceeded
    return left + right


def _add_time(left: Value, right: Value, kind: type, other_kind: type) -> Value:
    if kind is Duration and other_kind is Duration:
        return timestamps.duration(left.ns + right.ns)
    if kind is Duration and other_kind is Timestamp:
        return timestamps.timestamp(left.ns + right.ns, right.offset)
    if kind is Timestamp and other_kind is Duration:
        return timestamps.timestamp(left.ns + right.ns, left.offset)
    _raise_mismatch()


def subtract(left: Value, right: Value) -> Value:
    """``left - right``"""
    kind = type(left)
    if kind not in _SUBTRACT_TYPES:
        raise_no_such_overload("_-_", left)
    other_kind = type(right)
    if kind is Timestamp and other_kind is Duration:
        return timestamps.timestamp(left.ns - right.ns, left.offset)
    if kind is not other_kind:
        _raise_mismatch()
    if kind is int:
        return checked_int64(left - right)
    if kind is Uint:
        return checked_uint64(int(left) - int(right))
    if kind is float:
        return left - right
    if kind is Timestamp:
        # Upstream subtracts the seconds first, which can overflow although the whole difference does not.
        checked_int64((left.ns // timestamps.SECOND - right.ns // timestamps.SECOND) * timestamps.SECOND)
    return timestamps.duration(left.ns - right.ns)


def multiply(left: Value, right: Value) -> Value:
    """``left * right``"""
    kind = type(left)
    if kind not in _MULTIPLY_TYPES:
        raise_no_such_overload("_*_", left)
    if kind is not type(right):
        _raise_mismatch()
    if kind is int:
        return checked_int64(left * right)
    if kind is Uint:
        return checked_uint64(int(left) * int(right))
    return left * right


def divide(left: Value, right: Value) -> Value:
    """``left / right``: truncated for integers, IEEE 754 for doubles."""
    kind = type(left)
    if kind not in _MULTIPLY_TYPES:
        raise_no_such_overload("_/_", left)
    if kind is not type(right):
        _raise_mismatch()
    if kind is float:
        return _divide_doubles(left, right)
    if not right:
        raise CelError("division by zero")
    if kind is Uint:
        return Uint(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return checked_int64(-quotient if (left < 0) != (right < 0) else quotient)


def _divide_doubles(left: float, right: float) -> float:
    try:
        return left / right
    except ZeroDivisionError:
        if left == 0 or left != left:
            return float("nan")
        negative = (left < 0) != (str(right)[0] == "-")
        return float("-inf") if negative else float("inf")


def modulo(left: Value, right: Value) -> Value:
    """``left % right`` with the sign of the dividend."""
    kind = type(left)
    if kind not in _MODULO_TYPES:
        raise_no_such_overload("_%_", left)
    if kind is not type(right):
        _raise_mismatch()
    if not right:
        raise CelError("modulus by zero")
    if kind is Uint:
        return Uint(int(left) % int(right))
    if left == _INT64_MIN and right == -1:
        raise CelError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate(value: Value) -> Value:
    """``-value``"""
    kind = type(value)
    if kind is int:
        return checked_int64(-value)
    if kind is float:
        return -value
    if kind is bool:
        _raise_mismatch()
    if kind is Duration:
        return timestamps.duration(-value.ns)
    raise_no_such_overload("-_", value)


def _ordering(operator: str, accepted: tuple[int, ...]) -> Callable[[Value, Value], bool]:
    def order(left: Value, right: Value) -> bool:
        kind = type(left)
        if kind is int and type(right) is int:
            return ((left > right) - (left < right)) in accepted
        if kind not in COMPARABLE:
            raise_no_such_overload(operator, left)
        return compare(left, right) in accepted

    return order


less = _ordering("_<_", (-1,))
less_equals = _ordering("_<=_", (-1, 0))
greater = _ordering("_>_", (1,))
greater_equals = _ordering("_>=_", (1, 0))


def is_in(needle: Value, haystack: Value) -> bool:
    """``needle in haystack``: an equal element of a list, or a key of a map."""
    kind = type(haystack)
    if kind is ListValue:
        for item in haystack.items:  # noqa: SIM110 - deep values must not recurse through C
            if equal_in_search(needle, item):
                return True
        return False
    if kind is MapValue:
        return haystack.contains_key(needle)
    _raise_mismatch()


def size(value: Value) -> int:
    """``size(value)``: code points, bytes, elements, entries."""
    if type(value) in (str, bytes, ListValue, MapValue):
        return len(value)
    raise_no_such_overload("size", value)


#: Functions by name that check the types of their arguments themselves; their calls have no type guards.
SINGLETONS: Final[dict[str, Callable[..., Value]]] = {
    "_+_": add, "_-_": subtract, "_*_": multiply, "_/_": divide, "_%_": modulo, "-_": negate,
    "_<_": less, "_<=_": less_equals, "_>_": greater, "_>=_": greater_equals,
    "@in": is_in, "_in_": is_in, "in": is_in, "size": size,
}  # fmt: skip
