"""Validates an applied configuration against the schema of its type, with structured-merge-diff's messages.

Apply does not decode the object: it compares the tree with the schema, so unknown fields, values of the wrong type and
duplicate items are rejected before the merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.field_sets import element_text
from allotment.apiserver.writes.go_format import format_value
from allotment.model.fields import TypeShape
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_NUMBERS: Final = frozenset({"int32", "int64", "float64"})
_TEXTS: Final = frozenset({"string", "bytes"})
_GO_TYPES: Final = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}


def schema_errors(structure: Structure, tree: Tree) -> str:
    """The validation errors as one message; empty if there are none."""
    errors = [f"{path}: {message}" if path else message for path, message in _check_value(structure, tree, "")]
    return errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors]) if errors else ""


_Errors = Iterator[tuple[str, str]]


def _check_value(structure: Structure, value: Any, path: str) -> _Errors:
    if value is None:
        return
    relation = structure.relation
    if relation == "deduced":
        return
    if relation in ("struct", "map"):
        yield from _check_map(structure, value, path)
    elif relation in ("keyed", "set"):
        yield from _check_list(structure, value, path)
    elif structure.shape is not None:
        yield from _check_leaf(structure.shape, value, path)


def _check_map(structure: Structure, value: Any, path: str) -> _Errors:
    if type(value) is not dict:
        yield path, f"expected map, got &{{{format_value(value)}}}"
        return
    for name, item in value.items():
        item_path = f"{path}.{name}"
        shape = structure.shape
        if structure.relation == "struct" and not structure.declares(name) and shape is not None and shape.rest is None:
            yield item_path, "field not declared in schema"
            return
        yield from _check_value(structure.field(name)[1], item, item_path)


def _check_list(structure: Structure, values: Any, path: str) -> _Errors:
    if type(values) is not list:
        yield path, f"expected list, got &{{{format_value(values)}}}"
        return
    inner = structure.element
    assert inner is not None
    seen: set[str] = set()
    for index, item in enumerate(values):
        try:
            element = structure.item(item)
        except UnkeyedError as error:
            yield path, f"element {index}: {error}"
            return
        if element in seen:
            yield path, f"duplicate entries for key {element_text(element)}"
        seen.add(element)
        yield from _check_value(inner, item, f"{path}{element_text(element)}")


def _check_leaf(shape: TypeShape, value: Any, path: str) -> _Errors:
    """Check a scalar, or the contents of an atomic map or list."""
    form = shape.form
    if form == "struct" or form == "map":
        inner = Structure("struct" if form == "struct" else "map", shape)
        if form == "map":
            inner.element = structure_of(shape.element)
        yield from _check_map(inner, value, path)
    elif form == "slice":
        if type(value) is not list:
            yield path, f"expected list, got &{{{format_value(value)}}}"
            return
        element = structure_of(shape.element)
        for index, item in enumerate(value):
            yield from _check_value(element, item, f"{path}[{index}]")
    else:
        message = _scalar_error(form, value)
        if message:
            yield path, message


def _scalar_error(form: str, value: Any) -> str:
    value_type = type(value)
    if form in _NUMBERS:
        return "" if value_type in (int, float) else f"expected numeric (int or float), got {_GO_TYPES[value_type]}"
    if form in _TEXTS:
        return (
            "" if value_type is str else f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        )
    if form == "bool":
        return "" if value_type is bool else f"expected boolean, got &{{{format_value(value)}}}"
    if value_type is dict or value_type is list:
        return f"expected any scalar, got &{{{format_value(value)}}}"
    return ""


def _go_syntax(value: Any) -> str:
    """``%#v`` of decoded JSON."""
    if type(value) is dict:
        inside = ", ".join(f"{quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if type(value) is list:
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if type(value) is str:
        return quote(value)
    return "interface {}(nil)" if value is None else format_value(value)
