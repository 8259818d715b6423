"""What the API server fills in: defaults belong to types, so a container has its own wherever it stands.

For every kind a plan is compiled once: which of its fields lead to types that have defaults. An object's outer types
are filled before its inner ones, as Kubernetes does. Nothing given is changed; what needs no default is the same value
afterwards. Claims, classes and slices have theirs in :mod:`allotment.model.defaults`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from allotment.apiserver.kinds.defaults import cluster, core, pods, workloads
from allotment.apiserver.kinds.defaults.combinators import Fill, absent, empty
from allotment.apiserver.kinds.defaults.quantities import rounded_up
from allotment.model.fields import GROUP, TypeShape, shape_of
from allotment.model.trees import Tree

Walk = Callable[..., Any]

TYPES: Final[Mapping[str, Fill]] = {**pods.TYPES, **core.TYPES, **workloads.TYPES, **cluster.TYPES}


@functools.cache
def defaults_for(api_version: str, kind: str) -> Callable[[Tree, Tree | None], Tree]:
    """How an object of a kind, in a version, gets its defaults: the object, and its stored state if it has one.

    Parts that are the stored state's have theirs, and are not looked at again.
    """
    shape = shape_of(api_version, kind)
    if shape is None or api_version.partition("/")[0] == GROUP:
        return _unchanged
    return _compiled(shape, {}) or _unchanged


def _unchanged(tree: Tree, stored: Tree | None) -> Tree:
    return tree


class _Plan(NamedTuple):
    """Own defaults, and the fields that lead to more; those that Go never has without a value come with a True."""

    own: Fill | None
    inner: tuple[tuple[str, Walk, bool], ...]


def _compiled(shape: TypeShape, known: dict[int, Walk | None]) -> Walk | None:
    """What to do with a value of a type; None where nothing within has defaults."""
    key = id(shape)
    if key in known:
        return known[key]
    known[key] = None  # types that hold themselves (schemas of custom resources) have no defaults within
    made: Walk | None = None
    if shape.name == "v1.ResourceList":
        made = rounded_up
    elif shape.form == "struct":
        inner = tuple(
            (name, walk, field.shape.form == "struct" and not field.pointer)
            for name, field in shape.fields.items()
            if (walk := _compiled(field.shape, known)) is not None
        )
        own = _own(shape)
        if own is not None or inner:
            made = functools.partial(_struct, _Plan(own, inner))
    elif shape.element is not None:
        element = _compiled(shape.element, known)
        if element is not None:
            made = functools.partial(_list if shape.form == "slice" else _map, element)
    known[key] = made
    return made


def _own(shape: TypeShape) -> Fill | None:
    """The defaults of a struct: those its type declares field by field, and those that need a thought."""
    pointers = {
        name: field.default for name, field in shape.fields.items() if field.default is not None and field.pointer
    }
    values = {name: field.default for name, field in shape.fields.items() if field.default and not field.pointer}
    thought = TYPES.get(f"{shape.package.removeprefix('k8s.io/api/')}.{shape.bare_name}") or TYPES.get(
        f"{shape.package.rpartition('/apis/')[2]}.{shape.bare_name}"
    )
    if not pointers and not values:
        return thought

    def fill(tree: Tree) -> Tree:
        tree = empty(absent(tree, pointers), values)
        return tree if thought is None else thought(tree)

    return fill


def _struct(plan: _Plan, tree: Tree, stored: Tree | None = None) -> Tree:
    own, inner = plan
    filled = tree if own is None else own(tree)
    for name, walk, is_value in inner:
        value = filled.get(name)
        if value is None:
            if not is_value:
                continue
            value = _NOTHING
        elif stored is not None and value is stored.get(name):
            continue
        made = walk(value)
        if made is not value:
            if filled is tree:
                filled = dict(tree)
            filled[name] = made
    return filled


_NOTHING: Final[Tree] = {}


def _list(walk: Walk, values: list[Any]) -> list[Any]:
    made = [value if value is None else walk(value) for value in values]
    return values if all(map(_is, made, values)) else made


def _map(walk: Walk, values: Tree) -> Tree:
    made = {key: value if value is None else walk(value) for key, value in values.items()}
    return values if all(map(_is, made.values(), values.values())) else made


def _is(one: object, other: object) -> bool:
    return one is other
