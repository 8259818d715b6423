"""Objects as Kubernetes prints them: fields in the order of its Go types, with the empties it always prints.

What is unset is left out, unless the type says otherwise (``status: {}``, ``containers: null``); nulls go, quantities
are canonical, maps have their keys in order. A tree that is so already comes back as the very same object, and so does
every part of it: whoever compares two states can skip what is identical.

Plans are compiled once per type. Trees are not changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from allotment.model.fields import Field, TypeShape
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.trees import Tree

Normal = Callable[[Any], Any]

#: What is printed of an unset scalar that is always printed; lists, maps and times are null then.
_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip


def normalize(tree: Tree, shape: TypeShape | None, previous: Tree | None = None) -> Tree:
    """An object in its normal form. Of kinds without a Go type (custom resources) only the metadata has one.

    ``known`` is in its normal form: what is the same part there is not looked at again.
    """
    if shape is None:
        return tree
    if not shape.package:
        return _custom(tree, shape)
    result: Tree = _normal_of(shape).struct(tree, previous)
    return result


def _custom(tree: Tree, shape: TypeShape) -> Tree:
    field = shape.fields.get("metadata")
    if field is None or not field.shape.package or "metadata" not in tree:
        return tree
    metadata = _normal_of(field.shape).struct(tree["metadata"] or {})
    return tree if metadata is tree["metadata"] else {**tree, "metadata": metadata}


class _Part(NamedTuple):
    """How one field becomes normal: how its value does, whether an empty one stays, whether a null does."""

    how: Normal | None
    keep: bool
    null: bool


class _Layout(NamedTuple):
    """What is known of all objects of a type that have the same keys in the same order.

    ``inner``: the fields whose values may have to become normal. ``order``: which fields are printed at most, in
    order; ``right`` if the keys are just these. ``full`` are those that are not printed empty, ``given`` those that are
    not printed null.
    """

    inner: tuple[tuple[str, Normal], ...]
    order: tuple[str, ...]
    right: bool
    full: tuple[str, ...]
    given: tuple[str, ...]


#: So many layouts of a type are remembered: clients write as they like.
_LAYOUTS: Final = 512


class _Plan:
    """How values of one struct become normal: its fields in Go's order, and what is printed though it is not there."""

    __slots__ = ("always", "layouts", "parts")

    def __init__(self) -> None:
        self.parts: dict[str, _Part] = {}
        self.always: dict[str, Callable[[], Any]] = {}
        self.layouts: dict[tuple[str, ...], _Layout] = {}

    def struct(self, tree: Any, known: Tree | None = None) -> Any:
        keys = tuple(tree)
        layout = self.layouts.get(keys) or self._layout(keys)
        made = tree
        for name, how in layout.inner:
            value = tree[name]
            if value is not None and (known is None or value is not known.get(name)):
                inner = how(value)
                if inner is not value:
                    if made is tree:
                        made = dict(tree)
                    made[name] = inner
        if layout.right and (all(made.values()) or self._may_be_empty(made, layout)):
            return made
        return self._arranged(made, layout.order)

    def _layout(self, keys: tuple[str, ...]) -> _Layout:
        if len(self.layouts) >= _LAYOUTS:
            self.layouts.clear()
        parts = self.parts
        inner = tuple((name, how) for name in keys if name in parts and (how := parts[name].how) is not None)
        order = tuple(name for name in parts if name in keys or name in self.always)
        full = tuple(name for name in order if not parts[name].keep)
        given = tuple(name for name in order if parts[name].keep and not parts[name].null)
        layout = self.layouts[keys] = _Layout(inner, order, keys == order, full, given)
        return layout

    @staticmethod
    def _may_be_empty(tree: Tree, layout: _Layout) -> bool:
        """Whether all that is empty is printed so."""
        return all(map(tree.get, layout.full)) and None not in map(tree.get, layout.given)

    def _arranged(self, tree: Tree, order: tuple[str, ...]) -> Tree:
        arranged: Tree = {}
        for name in order:
            value = tree.get(name)
            if value or (name in tree and (self.parts[name].null if value is None else self.parts[name].keep)):
                arranged[name] = value
            elif name in self.always:
                arranged[name] = self.always[name]()
        return arranged


def _nothing() -> None:
    return None


_PLANS: dict[int, tuple[TypeShape, _Plan]] = {}


def _normal_of(shape: TypeShape) -> _Plan:
    known = _PLANS.get(id(shape))
    if known is not None and known[0] is shape:
        return known[1]
    plan = _Plan()
    _PLANS[id(shape)] = (shape, plan)  # before its fields: types may hold themselves
    for name, field in shape.fields.items():
        zero = _zero(field)
        null = field.always_printed and zero is _nothing
        plan.parts[name] = _Part(_how(name, field), field.always_printed or field.pointer, null)
        if field.always_printed:
            plan.always[name] = zero
    return plan


def _zero(field: Field) -> Callable[[], Any]:
    form = field.shape.form
    if form == "struct" and not field.pointer:
        return functools.partial(_normal_of(field.shape).struct, {})
    zero = _ZEROS.get(form)
    return _nothing if zero is None or field.pointer else lambda: zero


def _how(name: str, field: Field) -> Normal | None:
    if name == "managedFields":
        return None  # printed as whoever keeps them made them
    how = _of_shape(field.shape)
    if how is not None and field.always_printed and field.shape.form in ("slice", "map"):
        return functools.partial(_or_null, how)
    if how is None and field.always_printed and field.shape.form == "slice":
        return _list_or_null
    return how


def _or_null(how: Normal, value: Any) -> Any:
    return how(value) if value else None


def _list_or_null(value: Any) -> Any:
    return value or None


def _of_shape(shape: TypeShape) -> Normal | None:
    """How a value of a type becomes normal; None where it is so already."""
    form = shape.form
    if form == "struct":
        return _normal_of(shape).struct
    if form == "slice":
        assert shape.element is not None
        how = _of_shape(shape.element)
        return None if how is None else functools.partial(_list, how)
    if form == "map":
        assert shape.element is not None
        how = _of_shape(shape.element)
        return _sorted_map if how is None else functools.partial(_map, how)
    if shape.element is not None:
        how = _of_shape(shape.element)
        return None if how is None else functools.partial(_either, how)
    return {"Quantity": canonical_quantity, "bytes": _without_breaks}.get(form)


def _list(how: Normal, values: list[Any]) -> list[Any]:
    for index, value in enumerate(values):
        made = how(value)
        if made is not value:
            return values[:index] + [made] + [how(value) for value in values[index + 1 :]]
    return values


def _either(how: Normal, value: Any) -> Any:
    """A schema, several, or what may stand in place of one."""
    if isinstance(value, dict):
        return how(value)
    return _list(how, value) if isinstance(value, list) and value and isinstance(value[0], dict) else value


def _map(how: Normal, values: Tree) -> Tree:
    made = {key: how(values[key]) for key in sorted(values)}
    if list(made) == list(values) and all(made[key] is values[key] for key in made):
        return values
    return made


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
        return text  # decoding has refused it


def canonical_quantity(value: Any) -> Any:
    """A quantity as it is printed: ``1000m`` is ``1``."""
    text = _canonical(value if type(value) is str else str(value))
    return value if text == value else text


def _without_breaks(value: Any) -> Any:
    if type(value) is str and ("\n" in value or "\r" in value):
        return value.replace("\n", "").replace("\r", "")
    return value
