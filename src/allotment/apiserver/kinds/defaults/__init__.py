"""Defaults of the API server, by type: a container gets the same defaults wherever it occurs.

For each kind a plan is compiled once: the fields that lead to types with defaults. The outer types of an object are
defaulted before the inner ones, as in Kubernetes. Arguments are not modified; a value that needs no default is returned
as it is. Claims, classes and slices have their defaults in :mod:`allotment.model.defaults`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from allotment.apiserver.kinds.defaults import cluster, core, pods, workloads
from allotment.apiserver.kinds.defaults.combinators import Fill, fill_absent, fill_empty
from allotment.model.fields import GROUP, TypeShape, shape_of
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.trees import Tree

Walk = Callable[..., Any]

TYPES: Final[Mapping[str, Fill]] = {**pods.TYPES, **core.TYPES, **workloads.TYPES, **cluster.TYPES}


@functools.cache
def defaults_for(api_version: str, kind: str) -> Callable[[Tree, Tree | None], Tree]:
    """The defaulting function of a kind in a version: takes the object and its stored state, if any.

    Parts that are identical to the stored state are already defaulted and are skipped.
    """
    shape = shape_of(api_version, kind)
    if shape is None or api_version.partition("/")[0] == GROUP:
        return _unchanged
    return _compile(shape, {}) or _unchanged


def _unchanged(tree: Tree, stored: Tree | None) -> Tree:
    return tree


class _Plan(NamedTuple):
    """Own defaults, and fields with inner defaults; True marks struct fields that always have a value in Go."""

    own: Fill | None
    inner: tuple[tuple[str, Walk, bool], ...]


def _compile(shape: TypeShape, compiled: dict[int, Walk | None]) -> Walk | None:
    """The defaulting function of values of a type; None if there are no defaults within."""
    key = id(shape)
    if key in compiled:
        return compiled[key]
    compiled[key] = None  # recursive types (schemas of custom resources) have no defaults within
    result: Walk | None = None
    if shape.name == "v1.ResourceList":
        result = _rounded_amounts
    elif shape.form == "struct":
        inner = tuple(
            (name, walk, field.shape.form == "struct" and not field.pointer)
            for name, field in shape.fields.items()
            if (walk := _compile(field.shape, compiled)) is not None
        )
        own_defaults = _struct_defaults(shape)
        if own_defaults is not None or inner:
            result = functools.partial(_struct, _Plan(own_defaults, inner))
    elif shape.element is not None:
        element = _compile(shape.element, compiled)
        if element is not None:
            result = functools.partial(_list if shape.form == "slice" else _map, element)
    compiled[key] = result
    return result


def _struct_defaults(shape: TypeShape) -> Fill | None:
    """The defaults of a struct: declared ones of its fields, and custom functions."""
    pointers = {
        name: field.default for name, field in shape.fields.items() if field.default is not None and field.pointer
    }
    values = {name: field.default for name, field in shape.fields.items() if field.default and not field.pointer}
    custom = TYPES.get(f"{shape.package.removeprefix('k8s.io/api/')}.{shape.bare_name}") or TYPES.get(
        f"{shape.package.rpartition('/apis/')[2]}.{shape.bare_name}"
    )
    if not pointers and not values:
        return custom

    def fill(tree: Tree) -> Tree:
        tree = fill_empty(fill_absent(tree, pointers), values)
        return tree if custom is None else custom(tree)

    return fill


def _struct(plan: _Plan, tree: Tree, stored: Tree | None = None) -> Tree:
    own_defaults, inner = plan
    filled = tree if own_defaults is None else own_defaults(tree)
    for name, walk, is_value in inner:
        value = filled.get(name)
        if value is None:
            if not is_value:
                continue
            value = _EMPTY
        elif stored is not None and value is stored.get(name):
            continue
        new = walk(value)
        if new is not value:
            if filled is tree:
                filled = dict(tree)
            filled[name] = new
    return filled


_EMPTY: Final[Tree] = {}


def _list(walk: Walk, values: list[Any]) -> list[Any]:
    filled = [value if value is None else walk(value) for value in values]
    return values if all(map(operator.is_, filled, values)) else filled


def _map(walk: Walk, values: Tree) -> Tree:
    filled = {key: value if value is None else walk(value) for key, value in values.items()}
    return values if all(map(operator.is_, filled.values(), values.values())) else filled


_MILLI: Final = 10**6


@functools.lru_cache(4096)
def _rounded_up(text: str) -> str:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return text
    if quantity.nano % _MILLI == 0:
        return text
    # Rounds away from zero, as Go does.
    millis = -(-abs(quantity.nano) // _MILLI) * quantity.sign()
    return str(Quantity.parse(f"{millis}m"))


def _rounded_amounts(amounts: Tree) -> Tree:
    """Resource amounts, rounded up to the API's precision of a thousandth."""
    for value in amounts.values():
        text = value if type(value) is str else str(value)
        if _rounded_up(text) != text:
            return {name: _rounded_up(item if type(item) is str else str(item)) for name, item in amounts.items()}
    return amounts
