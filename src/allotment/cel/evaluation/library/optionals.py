"""Functions on optional values, except ``or`` and ``orValue``, which the planner implements because they are lazy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.cel.evaluation import value_format
from allotment.cel.evaluation.values import (
    ABSENT,
    NONE,
    CelError,
    Duration,
    ListValue,
    MapValue,
    Optional,
    Timestamp,
    Uint,
    Value,
)

#: Go's zero time, the first instant of the year 1.
_FIRST_TIMESTAMP: Final = -62_135_596_800 * 10**9
NO_VALUE: Final = "optional.none() dereference"


def value_of(optional: Optional) -> Value:
    """The content of an optional. Raises CelError if there is none."""
    value = optional.value
    if value is ABSENT:
        raise CelError(NO_VALUE)
    if isinstance(value, CelError):
        raise value
    return value


def of_non_zero(value: Value) -> Optional:
    """An optional of the value; none if the value is zero, empty, false or null."""
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    kind = type(value)
    if value is None:
        return True
    if kind in (int, Uint, float, bool, str, bytes):
        return not value
    if kind is ListValue or kind is MapValue:
        return not len(value)
    if kind is Timestamp:
        return bool(value.ns == _FIRST_TIMESTAMP)
    return kind is Duration and value.ns == 0


def unwrap(optionals: ListValue) -> ListValue:
    """The contents of the optionals that have one."""
    values: list[Value] = []
    for optional in optionals.items:
        if type(optional) is not Optional:
            raise CelError(f"value {value_format.go_format(optional)} is not optional")
        if optional.value is not ABSENT:
            values.append(value_of(optional))
    return ListValue(values)


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "optional_of": Optional,
    "optional_ofNonZeroValue": of_non_zero,
    "optional_none": lambda: NONE,
    "optional_value": value_of,
    "optional_hasValue": lambda optional: optional.value is not ABSENT,
    "optional_unwrap": unwrap,
    "optional_unwrapOpt": unwrap,
}
