"""Whether an applied configuration fits its type, in the words of structured-merge-diff.

Apply does not decode: it holds the tree against the schema, so unknown fields, values of another form and items that
stand twice are refused before anything is merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.field_sets import element_text
from allotment.apiserver.writes.go_maps import shown
from allotment.model.fields import TypeShape
from allotment.model.quoting import quote
from allotment.model.trees import Tree

_NUMBERS: Final = frozenset({"int32", "int64", "float64"})
_TEXTS: Final = frozenset({"string", "bytes"})
_GO_TYPES: Final = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool"}


def misfits(structure: Structure, tree: Tree) -> str:
    """What is wrong, as one text; empty if nothing is."""
    found = [f"{path}: {message}" if path else message for path, message in _value(structure, tree, "")]
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found]) if found else ""


_Found = Iterator[tuple[str, str]]


def _value(structure: Structure, value: Any, path: str) -> _Found:
    if value is None:
        return
    relation = structure.relation
    if relation == "deduced":
        return
    if relation in ("struct", "map"):
        yield from _map(structure, value, path)
    elif relation in ("keyed", "set"):
        yield from _list(structure, value, path)
    elif structure.shape is not None:
        yield from _leaf(structure.shape, value, path)


def _map(structure: Structure, value: Any, path: str) -> _Found:
    if type(value) is not dict:
        yield path, f"expected map, got &{{{shown(value)}}}"
        return
    for name, item in value.items():
        below = f"{path}.{name}"
        shape = structure.shape
        if structure.relation == "struct" and not structure.declares(name) and shape is not None and shape.rest is None:
            yield below, "field not declared in schema"
            return
        yield from _value(structure.field(name)[1], item, below)


def _list(structure: Structure, values: Any, path: str) -> _Found:
    if type(values) is not list:
        yield path, f"expected list, got &{{{shown(values)}}}"
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
        yield from _value(inner, item, f"{path}{element_text(element)}")


def _leaf(shape: TypeShape, value: Any, path: str) -> _Found:
    """A scalar, or a map or list that is owned as one: its inside is checked all the same."""
    form = shape.form
    if form == "struct" or form == "map":
        inner = Structure("struct" if form == "struct" else "map", shape)
        if form == "map":
            inner.element = structure_of(shape.element)
        yield from _map(inner, value, path)
    elif form == "slice":
        if type(value) is not list:
            yield path, f"expected list, got &{{{shown(value)}}}"
            return
        element = structure_of(shape.element)
        for index, item in enumerate(value):
            yield from _value(element, item, f"{path}[{index}]")
    else:
        message = _scalar(form, value)
        if message:
            yield path, message


def _scalar(form: str, value: Any) -> str:
    sort = type(value)
    if form in _NUMBERS:
        return "" if sort in (int, float) else f"expected numeric (int or float), got {_GO_TYPES[sort]}"
    if form in _TEXTS:
        return "" if sort is str else f"expected string, got &value.valueUnstructured{{Value:{_in_go(value)}}}"
    if form == "bool":
        return "" if sort is bool else f"expected boolean, got &{{{shown(value)}}}"
    if sort is dict or sort is list:
        return f"expected any scalar, got &{{{shown(value)}}}"
    return ""


def _in_go(value: Any) -> str:
    """``%#v`` of decoded JSON."""
    if type(value) is dict:
        inside = ", ".join(f"{quote(key)}:{_in_go(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if type(value) is list:
        return f"[]interface {{}}{{{', '.join(map(_in_go, value))}}}"
    if type(value) is str:
        return quote(value)
    return "interface {}(nil)" if value is None else shown(value)
