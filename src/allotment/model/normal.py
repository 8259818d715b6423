"""Objects as Kubernetes prints them: fields in the order of its Go types, with the empties it always prints.

What is unset is left out, unless the type says otherwise (``status: {}``, ``containers: null``); nulls go, quantities
are canonical, maps have their keys in order. A tree that is so already comes back as the very same object, and so does
every part of it: whoever compares two states can skip what is identical.

Plans are compiled once per type. Trees are not changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from allotment.model.fields import Field, Shape
from allotment.model.quantity import Quantity, QuantityError

Tree = dict[str, Any]
Normal = Callable[[Any], Any]

#: What is printed of an unset scalar that is always printed; lists, maps and times are null then.
_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip


def normal(tree: Tree, shape: Shape | None, known: Tree | None = None) -> Tree:
    """An object in its normal form. Of kinds without a Go type (custom resources) only the metadata has one.

    ``known`` is in its normal form: what is the same part there is not looked at again.
    """
    if shape is None:
        return tree
    if not shape.package:
        return _custom(tree, shape)
    result: Tree = _normal_of(shape).struct(tree, known)
    return result


def _custom(tree: Tree, shape: Shape) -> Tree:
    field = shape.fields.get("metadata")
    if field is None or not field.shape.package or "metadata" not in tree:
        return tree
    metadata = _normal_of(field.shape).struct(tree["metadata"] or {})
    return tree if metadata is tree["metadata"] else {**tree, "metadata": metadata}


class _Part(NamedTuple):
    """How one field becomes normal: its place, how, whether an empty value stays, whether a null does."""

    place: int
    how: Normal | None
    keep: bool
    null: bool
    always: bool


class _Plan:
    """How values of one struct become normal."""

    __slots__ = ("always", "parts")

    def __init__(self) -> None:
        self.parts: dict[str, _Part] = {}
        self.always: list[tuple[int, str, Callable[[], Any]]] = []

    def struct(self, tree: Any, known: Tree | None = None) -> Any:
        parts = self.parts
        last = -1
        missing = len(self.always)
        items = iter(tree.items())
        for name, value in items:
            part = parts.get(name)
            if part is None:
                return self._rebuilt(tree, items, known, name, value)
            place, how, keep, null, always = part
            if how is not None and value is not None and (known is None or value is not known.get(name)):
                made = how(value)
                if made is not value:
                    return self._rebuilt(tree, items, known, name, made)
            if place < last or (not null if value is None else not keep and not value):
                return self._rebuilt(tree, items, known, name, value)
            last = place
            if always:
                missing -= 1
        return self._rebuilt(tree, items, known, None, None) if missing else tree

    def _rebuilt(
        self, tree: Tree, rest: Iterator[tuple[str, Any]], known: Tree | None, name: str | None, value: Any
    ) -> Tree:
        """From the first field on that is not as it should be: ``value`` is what it has become. None: all are."""
        parts = self.parts
        kept: list[tuple[int, str, Any]] = []
        for before, right in tree.items():
            if before == name:
                break
            kept.append((parts[before].place, before, right))
        if name is not None:
            self._keep(kept, name, value)
        for after, given in rest:
            part = parts.get(after)
            how = None if part is None else part.how
            if how is not None and given is not None and (known is None or given is not known.get(after)):
                given = how(given)
            self._keep(kept, after, given)
        there = {name for _, name, _ in kept}
        kept += [(place, name, zero()) for place, name, zero in self.always if name not in there]
        kept.sort(key=_place)
        return {name: value for _, name, value in kept}

    def _keep(self, kept: list[tuple[int, str, Any]], name: str, value: Any) -> None:
        part = self.parts.get(name)
        if part is not None and (part.null if value is None else part.keep or value):
            kept.append((part.place, name, value))


def _place(entry: tuple[int, str, Any]) -> int:
    return entry[0]


def _nothing() -> None:
    return None


_PLANS: dict[int, tuple[Shape, _Plan]] = {}


def _normal_of(shape: Shape) -> _Plan:
    known = _PLANS.get(id(shape))
    if known is not None and known[0] is shape:
        return known[1]
    plan = _Plan()
    _PLANS[id(shape)] = (shape, plan)  # before its fields: types may hold themselves
    for place, (name, field) in enumerate(shape.fields.items()):
        zero = _zero(field)
        null = field.always and zero is _nothing
        plan.parts[name] = _Part(place, _how(name, field), field.always or field.pointer, null, field.always)
        if field.always:
            plan.always.append((place, name, zero))
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
    if how is not None and field.always and field.shape.form in ("slice", "map"):
        return functools.partial(_or_null, how)
    if how is None and field.always and field.shape.form == "slice":
        return _list_or_null
    return how


def _or_null(how: Normal, value: Any) -> Any:
    return how(value) if value else None


def _list_or_null(value: Any) -> Any:
    return value or None


def _of_shape(shape: Shape) -> Normal | None:
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
