"""Errors of Go's conversion of unstructured content to typed values, which ends a strategic merge patch."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.fields import TypeShape

_KINDS: Final = {dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64"}
_NUMBERS: Final = frozenset({"int32", "int64", "float64"})
_COLLECTIONS: Final = {"struct": "struct from:", "map": "map from", "slice": "slice from"}


def conversion_problem(value: Any, shape: TypeShape | None) -> str:
    """The first error of a value, in the order of Go's fields; empty if it can be converted.

    Types with a JSON form of their own, such as times and quantities, are not checked.
    """
    if value is None or shape is None:
        return ""
    if shape.form in _COLLECTIONS:
        return _collection_problem(value, shape)
    return _scalar_problem(value, shape)


def _collection_problem(value: Any, shape: TypeShape) -> str:
    parts: list[tuple[Any, TypeShape | None]]
    if shape.form == "slice" and isinstance(value, list):
        parts = [(item, shape.element) for item in value]
    elif shape.form == "map" and isinstance(value, dict):
        parts = [(item, shape.element) for item in value.values()]
    elif shape.form == "struct" and isinstance(value, dict):
        parts = [(value[name], field.shape) for name, field in shape.fields.items() if name in value]
    else:
        return f"cannot restore {_COLLECTIONS[shape.form]} {_KINDS[type(value)]}"
    return next(filter(None, (conversion_problem(item, inner) for item, inner in parts)), "")


def _scalar_problem(value: Any, shape: TypeShape) -> str:
    form, kind = shape.form, _KINDS[type(value)]
    if form == "string":
        # Go converts integers to strings, as code points, but this conversion refuses it.
        return "" if kind == "string" else _refused(kind, shape) if kind == "int64" else "unrecognized type: string"
    if form == "bool":
        return "" if kind == "bool" else "unrecognized type: bool"
    if form not in _NUMBERS:
        return ""
    if kind not in _NUMBERS:
        return f"unrecognized type: {form}"
    is_fraction = kind == "float64" and form != "float64" and value != int(value)
    return _refused(kind, shape) if is_fraction else ""


def _refused(kind: str, shape: TypeShape) -> str:
    return f"cannot convert {kind} to {shape.name}"
