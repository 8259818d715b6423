"""A fast check whether a tree passes strict decoding unchanged, as nearly every object that a server receives does.

:mod:`allotment.model.strict_decoding` reports every error with its path and converts values, so it tracks its position.
This module only returns a boolean, from checks that are compiled when a field is first seen. If it returns true, strict
decoding would return the same tree without violations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from allotment.model.base64_text import is_base64
from allotment.model.fields import TypeShape
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.times import MICROSECONDS, SECONDS, TimeError, canonical

#: The check of a value: its Python type if that is sufficient, else a function.
Check = type | Callable[[Any], bool]


def fits(tree: Any, shape: TypeShape, previous: Any = None) -> bool:
    """Whether strict decoding returns a tree unchanged and without violations. ``shape`` must be a Go type.

    ``previous``: a tree that fits the same type; parts that are identical to its parts are skipped.
    """
    check = _struct_check(shape)
    return check(tree) if previous is None else check.check_changed(tree, previous)


class _StructCheck(dict[str, Check]):
    """The checks of a struct's fields, filled on demand, because most objects use few of the fields of their type."""

    __slots__ = ("_shape",)

    def __init__(self, shape: TypeShape) -> None:
        self._shape = shape

    def __call__(self, tree: Any) -> bool:
        if type(tree) is not dict:
            return False
        for name, value in tree.items():
            check = self[name]
            if type(value) is not check and (isinstance(check, type) or not check(value)):
                return False
        return True

    def check_changed(self, tree: Any, previous: Any) -> bool:
        """Check a tree that can share parts with one that fits."""
        if type(tree) is not dict or type(previous) is not dict:
            return self(tree)
        for name, value in tree.items():
            previous_value = previous.get(name)
            if value is previous_value and value is not None:
                continue
            check = self[name]
            if type(check) is _StructCheck:
                if not check.check_changed(value, previous_value):
                    return False
            elif type(value) is not check and (isinstance(check, type) or not check(value)):
                return False
        return True

    def __missing__(self, name: str) -> Check:
        field = self._shape.fields.get(name)
        if field is None:
            return _never  # not stored: clients choose these names
        check = self[name] = _shape_check(field.shape)
        return check


@cache
def _struct_check(shape: TypeShape) -> _StructCheck:
    return _StructCheck(shape)


def _list(check: Check, values: Any) -> bool:
    return type(values) is list and _all(check, values)


def _map(check: Check, values: Any) -> bool:
    return type(values) is dict and _all(check, values.values())


def _all(check: Check, values: Any) -> bool:
    if isinstance(check, type):
        return all(type(value) is check for value in values)
    return all(map(check, values))


def _shape_check(shape: TypeShape) -> Check:
    if shape.form == "struct":
        return _struct_check(shape)
    if shape.form in ("slice", "map"):
        assert shape.element is not None
        return partial(_list if shape.form == "slice" else _map, _shape_check(shape.element))
    return _SCALARS.get(shape.form, _never)


def _never(value: Any) -> bool:
    """The check of unknown fields and of types with their own decoder: strict decoding handles them."""
    return False


def _integer(limit: int, value: Any) -> bool:
    return type(value) is int and -limit <= value < limit


def _quantity(value: Any) -> bool:
    if type(value) is not str or value.strip() != value:
        return False
    try:
        Quantity.parse(value)
    except QuantityError:
        return False
    return True


def _time(layout: str, value: Any) -> bool:
    try:
        return type(value) is str and canonical(value, layout) == value
    except TimeError:
        return False


def _bytes(value: Any) -> bool:
    return type(value) is str and is_base64(value)


def _int_or_string(value: Any) -> bool:
    return type(value) is str or _integer(2**31, value)


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _anything(value: Any) -> bool:
    return value is not None


_SCALARS: Final[dict[str, Check]] = {
    "string": str,
    "bool": bool,
    "int32": partial(_integer, 2**31),
    "int64": partial(_integer, 2**63),
    "float64": _number,
    "bytes": _bytes,
    "Quantity": _quantity,
    "Time": partial(_time, SECONDS),
    "MicroTime": partial(_time, MICROSECONDS),
    "IntOrString": _int_or_string,
    "RawExtension": _anything,
    "FieldsV1": _anything,
    "JSON": _anything,
    "any": _anything,
}
