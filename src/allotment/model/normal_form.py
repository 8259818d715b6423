"""Converts objects to the form that Kubernetes prints: fields in the order of its Go types, without unset fields.

Empty fields are omitted unless the type always prints them (``status: {}``, ``containers: null``), nulls are removed,
quantities are canonical, and maps are sorted by key. A tree, or a part of it, that is already normal is returned as the
same object, so that a comparison of two states can skip identical parts.

Plans are compiled once per type. Trees are not changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from allotment.model.fields import Field, TypeShape
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.trees import Tree

Normalizer = Callable[[Any], Any]

#: The printed value of unset scalars that are always printed; lists, maps and times are printed as null.
_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip


def normalize(tree: Tree, shape: TypeShape | None, previous: Tree | None = None) -> Tree:
    """Return an object in its normal form. Of kinds without a Go type (custom resources) only metadata is normalized.

    ``previous``: a normalized object; parts that are identical to its parts are skipped.
    """
    if shape is None:
        return tree
    if not shape.package:
        return _normalize_custom(tree, shape)
    result: Tree = _struct_plan(shape).normalize(tree, previous)
    return result


def _normalize_custom(tree: Tree, shape: TypeShape) -> Tree:
    field = shape.fields.get("metadata")
    if field is None or not field.shape.package or "metadata" not in tree:
        return tree
    metadata = _struct_plan(field.shape).normalize(tree["metadata"] or {})
    return tree if metadata is tree["metadata"] else {**tree, "metadata": metadata}


class _FieldPlan(NamedTuple):
    """The normalizer of a field's value, if any, and whether an empty value and a null are kept."""

    normalizer: Normalizer | None
    keeps_empty: bool
    keeps_null: bool


class _Layout(NamedTuple):
    """Precomputed facts about all objects of a type with the same keys in the same order.

    ``inner``: the fields whose values need a normalizer. ``order``: all fields that can be printed, in order;
    ``is_ordered`` if the keys are exactly these. ``non_empty``: fields that are omitted if empty. ``non_null``: fields
    that are kept if empty, but not if null.
    """

    inner: tuple[tuple[str, Normalizer], ...]
    order: tuple[str, ...]
    is_ordered: bool
    non_empty: tuple[str, ...]
    non_null: tuple[str, ...]


#: The maximum number of cached layouts per type; clients choose the order of keys.
_LAYOUTS_MAX: Final = 512


class _StructPlan:
    """The normalization of a struct: its fields in Go's order, and the values of fields that are always printed."""

    __slots__ = ("always", "fields", "layouts")

    def __init__(self) -> None:
        self.fields: dict[str, _FieldPlan] = {}
        self.always: dict[str, Callable[[], Any]] = {}
        self.layouts: dict[tuple[str, ...], _Layout] = {}

    def normalize(self, tree: Any, previous: Tree | None = None) -> Any:
        keys = tuple(tree)
        layout = self.layouts.get(keys) or self._layout(keys)
        result = tree
        for name, normalizer in layout.inner:
            value = tree[name]
            if value is not None and (previous is None or value is not previous.get(name)):
                inner = normalizer(value)
                if inner is not value:
                    if result is tree:
                        result = dict(tree)
                    result[name] = inner
        if layout.is_ordered and (all(result.values()) or self._keeps_empties(result, layout)):
            return result
        return self._in_order(result, layout.order)

    def _layout(self, keys: tuple[str, ...]) -> _Layout:
        if len(self.layouts) >= _LAYOUTS_MAX:
            self.layouts.clear()
        fields = self.fields
        inner = tuple(
            (name, normalizer)
            for name in keys
            if name in fields and (normalizer := fields[name].normalizer) is not None
        )
        order = tuple(name for name in fields if name in keys or name in self.always)
        non_empty = tuple(name for name in order if not fields[name].keeps_empty)
        non_null = tuple(name for name in order if fields[name].keeps_empty and not fields[name].keeps_null)
        layout = self.layouts[keys] = _Layout(inner, order, keys == order, non_empty, non_null)
        return layout

    @staticmethod
    def _keeps_empties(tree: Tree, layout: _Layout) -> bool:
        """Whether all empty fields are printed as empty."""
        return all(map(tree.get, layout.non_empty)) and None not in map(tree.get, layout.non_null)

    def _in_order(self, tree: Tree, order: tuple[str, ...]) -> Tree:
        arranged: Tree = {}
        for name in order:
            value = tree.get(name)
            if value or (
                name in tree and (self.fields[name].keeps_null if value is None else self.fields[name].keeps_empty)
            ):
                arranged[name] = value
            elif name in self.always:
                arranged[name] = self.always[name]()
        return arranged


def _no_value() -> None:
    return None


_PLANS: dict[int, tuple[TypeShape, _StructPlan]] = {}


def _struct_plan(shape: TypeShape) -> _StructPlan:
    cached = _PLANS.get(id(shape))
    if cached is not None and cached[0] is shape:
        return cached[1]
    plan = _StructPlan()
    _PLANS[id(shape)] = (shape, plan)  # before its fields, because types can be recursive
    for name, field in shape.fields.items():
        zero = _zero(field)
        keeps_null = field.always_printed and zero is _no_value
        plan.fields[name] = _FieldPlan(
            _field_normalizer(name, field), field.always_printed or field.pointer, keeps_null
        )
        if field.always_printed:
            plan.always[name] = zero
    return plan


def _zero(field: Field) -> Callable[[], Any]:
    form = field.shape.form
    if form == "struct" and not field.pointer:
        return functools.partial(_struct_plan(field.shape).normalize, {})
    zero = _ZEROS.get(form)
    return _no_value if zero is None or field.pointer else lambda: zero


def _field_normalizer(name: str, field: Field) -> Normalizer | None:
    if name == "managedFields":
        return None  # printed as stored
    normalizer = _shape_normalizer(field.shape)
    if normalizer is not None and field.always_printed and field.shape.form in ("slice", "map"):
        return functools.partial(_or_null, normalizer)
    if normalizer is None and field.always_printed and field.shape.form == "slice":
        return _list_or_null
    return normalizer


def _or_null(normalizer: Normalizer, value: Any) -> Any:
    return normalizer(value) if value else None


def _list_or_null(value: Any) -> Any:
    return value or None


def _shape_normalizer(shape: TypeShape) -> Normalizer | None:
    """The normalizer for values of a type, or None if every value is normal."""
    form = shape.form
    if form == "struct":
        return _struct_plan(shape).normalize
    if form == "slice":
        assert shape.element is not None
        normalizer = _shape_normalizer(shape.element)
        return None if normalizer is None else functools.partial(_normalize_list, normalizer)
    if form == "map":
        assert shape.element is not None
        normalizer = _shape_normalizer(shape.element)
        return _sorted_map if normalizer is None else functools.partial(_normalize_map, normalizer)
    if shape.element is not None:
        normalizer = _shape_normalizer(shape.element)
        return None if normalizer is None else functools.partial(_normalize_union, normalizer)
    return {"Quantity": canonical_quantity, "bytes": _without_line_breaks}.get(form)


def _normalize_list(normalizer: Normalizer, values: list[Any]) -> list[Any]:
    for index, value in enumerate(values):
        result = normalizer(value)
        if result is not value:
            return values[:index] + [result] + [normalizer(value) for value in values[index + 1 :]]
    return values


def _normalize_union(normalizer: Normalizer, value: Any) -> Any:
    """Normalize a schema, a list of schemas, or a value that can replace a schema."""
    if isinstance(value, dict):
        return normalizer(value)
    return (
        _normalize_list(normalizer, value)
        if isinstance(value, list) and value and isinstance(value[0], dict)
        else value
    )


def _normalize_map(normalizer: Normalizer, values: Tree) -> Tree:
    result = {key: normalizer(values[key]) for key in sorted(values)}
    if list(result) == list(values) and all(result[key] is values[key] for key in result):
        return values
    return result


def _sorted_map(values: Tree) -> Tree:
    if len(values) < 2:
        return values
    keys = list(values)
    in_order = sorted(keys)
    return values if in_order == keys else {key: values[key] for key in in_order}


@functools.lru_cache(4096)
def _canonical(text: str) -> str:
    try:
        return str(Quantity.parse(text))
    except QuantityError:
        return text  # decoding has rejected it


def canonical_quantity(value: Any) -> Any:
    """A quantity in canonical form: ``1000m`` is ``1``."""
    text = _canonical(value if type(value) is str else str(value))
    return value if text == value else text


def _without_line_breaks(value: Any) -> Any:
    if type(value) is str and ("\n" in value or "\r" in value):
        return value.replace("\n", "").replace("\r", "")
    return value
