"""Whether a tree fits its type as it is, said fast: nearly every object that a server is given does.

:mod:`allotment.model.strict_decoding` finds every fault with its place and mends what can be mended, and for that
keeps track of where it is. This only answers yes or no, by plans that are compiled as fields are first met; where it
says yes, strict decoding would have given the very same tree and no fault.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final

from allotment.model.base64_text import is_base64
from allotment.model.fields import TypeShape
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.times import MICROSECONDS, SECONDS, TimeError, canonical

#: How a value is judged: by its Python type where that is all there is to it, else by a function.
Fit = type | Callable[[Any], bool]


def fits(tree: Any, shape: TypeShape, previous: Any = None) -> bool:
    """Whether strict decoding would leave a tree as it is and find nothing wrong. ``shape`` is a Go type's.

    ``known`` fits the same shape: parts of the tree that are the very same objects there are not looked at again.
    """
    judge = _judge(shape)
    return judge(tree) if previous is None else judge.beside(tree, previous)


class _Struct(dict[str, Fit]):
    """How the fields of a struct are judged; filled as they are met, for most types have many that few objects use."""

    __slots__ = ("_shape",)

    def __init__(self, shape: TypeShape) -> None:
        self._shape = shape

    def __call__(self, tree: Any) -> bool:
        if type(tree) is not dict:
            return False
        for name, value in tree.items():
            fit = self[name]
            if type(value) is not fit and (isinstance(fit, type) or not fit(value)):
                return False
        return True

    def beside(self, tree: Any, known: Any) -> bool:
        """The same of a tree that may share parts with one that fits."""
        if type(tree) is not dict or type(known) is not dict:
            return self(tree)
        for name, value in tree.items():
            before = known.get(name)
            if value is before and value is not None:
                continue
            fit = self[name]
            if type(fit) is _Struct:
                if not fit.beside(value, before):
                    return False
            elif type(value) is not fit and (isinstance(fit, type) or not fit(value)):
                return False
        return True

    def __missing__(self, name: str) -> Fit:
        field = self._shape.fields.get(name)
        if field is None:
            return _never  # not kept: these names are the clients'
        fit = self[name] = _fit_of(field.shape)
        return fit


@cache
def _judge(shape: TypeShape) -> _Struct:
    return _Struct(shape)


def _list(fit: Fit, values: Any) -> bool:
    return type(values) is list and _all(fit, values)


def _map(fit: Fit, values: Any) -> bool:
    return type(values) is dict and _all(fit, values.values())


def _all(fit: Fit, values: Any) -> bool:
    if isinstance(fit, type):
        return all(type(value) is fit for value in values)
    return all(map(fit, values))


def _fit_of(shape: TypeShape) -> Fit:
    if shape.form == "struct":
        return _judge(shape)
    if shape.form in ("slice", "map"):
        assert shape.element is not None
        return partial(_list if shape.form == "slice" else _map, _fit_of(shape.element))
    return _SCALARS.get(shape.form, _never)


def _never(value: Any) -> bool:
    """Unknown, or of a type that decodes itself: for strict decoding to judge."""
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


_SCALARS: Final[dict[str, Fit]] = {
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
