"""Applies edits to the tree of a document, independent of its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from allotment.model.editing.edits import (
    AddDocument,
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
    """Return the tree after the edits; ``tree`` is not changed. Raises ``EditError`` for an edit that does not fit.

    Null is treated as an empty mapping or list if a field or item is added to it.

    >>> apply_edits({"a": 1, "b": 2}, [Nest((), ("b",), "c")])
    {'a': 1, 'c': {'b': 2}}
    """
    for edit in rebased(edits):
        tree = _apply_edit(tree, edit)
    return tree


def json_equal(left: Any, right: Any) -> bool:
    """Whether two trees are equal as JSON: 1, 1.0 and true are different values, the order of keys is ignored."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(json_equal(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def value_at(tree: Any, path: Path) -> Any:
    """The value at ``path``. Raises ``EditError`` if there is none."""
    for number, step in enumerate(path):
        exists = step in tree if isinstance(tree, dict) else isinstance(tree, list) and step in range(len(tree))
        if not exists:
            raise EditError(f"{join_path(path[: number + 1])} not found")
        tree = tree[step]
    return tree


def _apply_edit(tree: Any, edit: Edit) -> Any:
    if isinstance(edit, AddDocument):
        return tree
    if isinstance(edit, Nest):
        return _replace_at(tree, edit.path, lambda value: _nest_fields(value, edit))
    if isinstance(edit, InsertItem):
        return _replace_at(tree, edit.path, lambda value: _insert_item(value, edit))
    if isinstance(edit, ReplaceText):
        return _replace_at(tree, edit.path, lambda value: _replace_text(value, edit))
    if not edit.path:
        raise EditError("a document cannot be removed or replaced as a whole")
    *above, last = edit.path
    return _replace_at(tree, tuple(above), lambda parent: _change_member(parent, last, edit))


def _replace_at(tree: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """The tree with the value at ``path`` changed; only its ancestors are copied."""
    inner = change(value_at(tree, path))
    for depth in range(len(path) - 1, -1, -1):
        parent = value_at(tree, path[:depth])
        copy: Any = dict(parent) if isinstance(parent, dict) else list(parent)
        copy[path[depth]] = inner
        inner = copy
    return inner


def _change_member(parent: Any, last: str | int, edit: SetValue | RenameKey | Remove | Lift) -> Any:
    if isinstance(edit, SetValue) and parent is None and isinstance(last, str):
        return {last: edit.value}
    if isinstance(parent, dict) and isinstance(last, str):
        return _change_field(parent, last, edit)
    if isinstance(parent, list) and isinstance(last, int) and 0 <= last < len(parent):
        if isinstance(edit, SetValue):
            return [*parent[:last], edit.value, *parent[last + 1 :]]
        if isinstance(edit, Remove):
            return [*parent[:last], *parent[last + 1 :]]
        raise EditError(f"{join_path(edit.path)} is a list item: it has no key and no sibling fields")
    raise EditError(f"{join_path(edit.path)} not found")


def _change_field(parent: dict[str, Any], key: str, edit: SetValue | RenameKey | Remove | Lift) -> dict[str, Any]:
    if key not in parent:
        if isinstance(edit, SetValue):
            return _add_field(parent, key, edit)
        raise EditError(f"{join_path(edit.path)} not found")
    if isinstance(edit, SetValue):
        return {**parent, key: edit.value}
    if isinstance(edit, Remove):
        return {name: value for name, value in parent.items() if name != key}
    if isinstance(edit, RenameKey):
        if edit.name != key and edit.name in parent:
            raise EditError(f"{edit.name} already exists next to {join_path(edit.path)}")
        return {edit.name if name == key else name: value for name, value in parent.items()}
    inner = parent[key]
    if not isinstance(inner, dict):
        raise EditError(f"{join_path(edit.path)} is not a mapping")
    if conflicting := sorted(inner.keys() & (parent.keys() - {key})):
        raise EditError(f"{conflicting[0]} already exists next to {join_path(edit.path)}")
    lifted: dict[str, Any] = {}
    for name, value in parent.items():
        lifted.update(inner if name == key else {name: value})
    return lifted


def _add_field(parent: dict[str, Any], key: str, edit: SetValue) -> dict[str, Any]:
    if edit.first:
        return {key: edit.value, **parent}
    added: dict[str, Any] = {}
    for name, value in parent.items():
        added[name] = value
        if name == edit.after:
            added[key] = edit.value
    added.setdefault(key, edit.value)
    return added


def _nest_fields(value: Any, edit: Nest) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise EditError(f"{join_path(edit.path) or 'the document'} is not a mapping")
    moved = {key: value[key] for key in value if key in edit.keys}
    if not moved:
        raise EditError(f"{join_path(edit.path) or 'the document'} has no {' or '.join(edit.keys)}")
    if edit.under in value and edit.under not in moved:
        raise EditError(f"{edit.under} already exists in {join_path(edit.path) or 'the document'}")
    nested: dict[str, Any] = {}
    for key, inner in value.items():
        if key in moved:
            nested.setdefault(edit.under, moved)
        else:
            nested[key] = inner
    return nested


def _insert_item(value: Any, edit: InsertItem) -> list[Any]:
    items = [] if value is None else value
    if not isinstance(items, list):
        raise EditError(f"{join_path(edit.path)} is not a list")
    if not 0 <= edit.position <= len(items):
        raise EditError(f"{join_path(edit.path)} has {len(items)} items: cannot insert one at index {edit.position}")
    return [*items[: edit.position], edit.value, *items[edit.position :]]


def _replace_text(value: Any, edit: ReplaceText) -> str:
    if not isinstance(value, str):
        raise EditError(f"{join_path(edit.path)} is not a string")
    if not 0 <= edit.start <= edit.stop <= len(value):
        raise EditError(f"{join_path(edit.path)} has {len(value)} characters: cannot replace {edit.start}:{edit.stop}")
    return value[: edit.start] + edit.text + value[edit.stop :]
