"""What edits mean: the tree that a document has once they are done. Nothing here knows how a text is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from allotment.model.editing.edits import (
    Edit,
    EditError,
    InsertItem,
    Lift,
    Nest,
    Remove,
    RenameKey,
    ReplaceText,
    SetValue,
)
from allotment.model.editing.path_rebasing import rebased
from allotment.model.loading.marks import Path, join_path


def apply_edits(tree: Any, edits: Iterable[Edit]) -> Any:
    """The tree after the edits; the given one stays as it is. Raises ``EditError`` when one does not fit.

    Null counts as an empty mapping or list when a field or item is added to it.

    >>> edited({"a": 1, "b": 2}, [Nest((), ("b",), "c")])
    {'a': 1, 'c': {'b': 2}}
    """
    for edit in rebased(edits):
        tree = _edited(tree, edit)
    return tree


def json_equal(one: Any, other: Any) -> bool:
    """Whether two trees are equal as JSON is: 1, 1.0 and true are three values. The order of keys does not count."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(json_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(json_equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def value_at(tree: Any, path: Path) -> Any:
    """The value at ``path``. Raises ``EditError`` where there is none."""
    for number, step in enumerate(path):
        there = step in tree if isinstance(tree, dict) else isinstance(tree, list) and step in range(len(tree))
        if not there:
            raise EditError(f"there is no {join_path(path[: number + 1])}")
        tree = tree[step]
    return tree


def _edited(tree: Any, edit: Edit) -> Any:
    if isinstance(edit, Nest):
        return _changed(tree, edit.path, lambda value: _nested(value, edit))
    if isinstance(edit, InsertItem):
        return _changed(tree, edit.path, lambda value: _inserted(value, edit))
    if isinstance(edit, ReplaceText):
        return _changed(tree, edit.path, lambda value: _replaced(value, edit))
    if not edit.path:
        raise EditError("a document cannot be removed or replaced as a whole")
    *above, last = edit.path
    return _changed(tree, tuple(above), lambda around: _member_changed(around, last, edit))


def _changed(tree: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """The tree with the value at ``path`` changed; only what is above it is copied."""
    inner = change(value_at(tree, path))
    for depth in range(len(path) - 1, -1, -1):
        around = value_at(tree, path[:depth])
        copy: Any = dict(around) if isinstance(around, dict) else list(around)
        copy[path[depth]] = inner
        inner = copy
    return inner


def _member_changed(around: Any, last: str | int, edit: SetValue | RenameKey | Remove | Lift) -> Any:
    if isinstance(edit, SetValue) and around is None and isinstance(last, str):
        return {last: edit.value}
    if isinstance(around, dict) and isinstance(last, str):
        return _field_changed(around, last, edit)
    if isinstance(around, list) and isinstance(last, int) and 0 <= last < len(around):
        if isinstance(edit, SetValue):
            return [*around[:last], edit.value, *around[last + 1 :]]
        if isinstance(edit, Remove):
            return [*around[:last], *around[last + 1 :]]
        raise EditError(f"{join_path(edit.path)} is an item of a list: it has no name, and no fields around it")
    raise EditError(f"there is no {join_path(edit.path)}")


def _field_changed(around: dict[str, Any], key: str, edit: SetValue | RenameKey | Remove | Lift) -> dict[str, Any]:
    if key not in around:
        if isinstance(edit, SetValue):
            return _added(around, key, edit)
        raise EditError(f"there is no {join_path(edit.path)}")
    if isinstance(edit, SetValue):
        return {**around, key: edit.value}
    if isinstance(edit, Remove):
        return {name: value for name, value in around.items() if name != key}
    if isinstance(edit, RenameKey):
        if edit.name != key and edit.name in around:
            raise EditError(f"{edit.name} is there already, beside {join_path(edit.path)}")
        return {edit.name if name == key else name: value for name, value in around.items()}
    inner = around[key]
    if not isinstance(inner, dict):
        raise EditError(f"{join_path(edit.path)} is no mapping")
    if both := sorted(inner.keys() & (around.keys() - {key})):
        raise EditError(f"{both[0]} is there already, beside {join_path(edit.path)}")
    lifted: dict[str, Any] = {}
    for name, value in around.items():
        lifted.update(inner if name == key else {name: value})
    return lifted


def _added(around: dict[str, Any], key: str, edit: SetValue) -> dict[str, Any]:
    if edit.first:
        return {key: edit.value, **around}
    added: dict[str, Any] = {}
    for name, value in around.items():
        added[name] = value
        if name == edit.after:
            added[key] = edit.value
    added.setdefault(key, edit.value)
    return added


def _nested(value: Any, edit: Nest) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise EditError(f"{join_path(edit.path) or 'the document'} is no mapping")
    moved = {key: value[key] for key in value if key in edit.keys}
    if not moved:
        raise EditError(f"{join_path(edit.path) or 'the document'} has no {' or '.join(edit.keys)}")
    if edit.under in value and edit.under not in moved:
        raise EditError(f"{edit.under} is there already, in {join_path(edit.path) or 'the document'}")
    nested: dict[str, Any] = {}
    for key, inner in value.items():
        if key in moved:
            nested.setdefault(edit.under, moved)
        else:
            nested[key] = inner
    return nested


def _inserted(value: Any, edit: InsertItem) -> list[Any]:
    items = [] if value is None else value
    if not isinstance(items, list):
        raise EditError(f"{join_path(edit.path)} is no list")
    if not 0 <= edit.index <= len(items):
        raise EditError(f"{join_path(edit.path)} has {len(items)} items, none can become number {edit.index}")
    return [*items[: edit.index], edit.value, *items[edit.index :]]


def _replaced(value: Any, edit: ReplaceText) -> str:
    if not isinstance(value, str):
        raise EditError(f"{join_path(edit.path)} is no string")
    if not 0 <= edit.start <= edit.stop <= len(value):
        raise EditError(f"{join_path(edit.path)} is a string of {len(value)} characters, not of {edit.stop}")
    return value[: edit.start] + edit.text + value[edit.stop :]
