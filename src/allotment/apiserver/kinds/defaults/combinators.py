"""What a default is made of: a value for what is unset, given without changing what is there.

Go tells two sorts of unset: a pointer that is nil, and a value that is zero. The tables of defaults keep the two apart,
for ``replicas: 0`` must stay and ``timeoutSeconds: 0`` means the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allotment.model.trees import Tree

Fill = Callable[[Tree], Tree]


def absent(tree: Tree, defaults: Mapping[str, Any]) -> Tree:
    """The tree with these values where nothing is given, or null."""
    for name in defaults:
        if tree.get(name) is None:
            return {**tree, **{name: value for name, value in defaults.items() if tree.get(name) is None}}
    return tree


def empty(tree: Tree, defaults: Mapping[str, Any]) -> Tree:
    """The tree with these values where nothing is given, or a zero."""
    for name in defaults:
        if not tree.get(name):
            return {**tree, **{name: value for name, value in defaults.items() if not tree.get(name)}}
    return tree


def within(tree: Tree, name: str, fill: Fill) -> Tree:
    """The tree with one map inside filled; an absent one is filled from nothing."""
    inner = tree.get(name) or {}
    filled = fill(inner)
    return tree if filled is inner and name in tree else {**tree, name: filled}


def each(tree: Tree, name: str, fill: Fill) -> Tree:
    """The tree with every item of a list inside filled."""
    items = tree.get(name)
    if not items:
        return tree
    filled = [fill(item) for item in items]
    if all(new is old for new, old in zip(filled, items, strict=True)):
        return tree
    return {**tree, name: filled}


def when_absent(**defaults: Any) -> Fill:
    """A fill of nil pointers."""
    return lambda tree: absent(tree, defaults)


def when_empty(**defaults: Any) -> Fill:
    """A fill of zero values."""
    return lambda tree: empty(tree, defaults)
