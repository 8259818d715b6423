"""Building blocks of defaults: set values of unset fields without modifying the argument.

Go has two kinds of unset values: nil pointers and zero values. The default tables distinguish them, for ``replicas: 0``
is kept and ``timeoutSeconds: 0`` means the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allotment.model.trees import Tree

Fill = Callable[[Tree], Tree]


def fill_absent(tree: Tree, defaults: Mapping[str, Any]) -> Tree:
    """The tree with defaults set where a field is absent or null."""
    for name in defaults:
        if tree.get(name) is None:
            return {**tree, **{name: value for name, value in defaults.items() if tree.get(name) is None}}
    return tree


def fill_empty(tree: Tree, defaults: Mapping[str, Any]) -> Tree:
    """The tree with defaults set where a field is absent, null or a zero value."""
    for name in defaults:
        if not tree.get(name):
            return {**tree, **{name: value for name, value in defaults.items() if not tree.get(name)}}
    return tree


def fill_within(tree: Tree, name: str, fill: Fill) -> Tree:
    """The tree with one nested map filled; an absent map counts as empty."""
    inner = tree.get(name) or {}
    filled = fill(inner)
    return tree if filled is inner and name in tree else {**tree, name: filled}


def fill_each(tree: Tree, name: str, fill: Fill) -> Tree:
    """The tree with every item of a nested list filled."""
    items = tree.get(name)
    if not items:
        return tree
    filled = [fill(item) for item in items]
    if all(new is old for new, old in zip(filled, items, strict=True)):
        return tree
    return {**tree, name: filled}


def when_absent(**defaults: Any) -> Fill:
    """A function that sets defaults of nil pointers."""
    return lambda tree: fill_absent(tree, defaults)


def when_empty(**defaults: Any) -> Fill:
    """A function that sets defaults of zero values."""
    return lambda tree: fill_empty(tree, defaults)
