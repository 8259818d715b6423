"""Edits as steps: each a small change, one after the other, and as many of them at once as do not touch each other.

A value that becomes another of the same shape is changed where it differs, so that what both have in common keeps its
text. Steps in parts of a document that have nothing to do with each other are made in one reading of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from allotment.model.editing.edits import Edit, EditError, InsertItem, Nest, Remove, ReplaceText, SetValue
from allotment.model.editing.path_rebasing import rebased
from allotment.model.editing.tree_edits import apply_edits, json_equal, value_at
from allotment.model.loading import Document
from allotment.model.loading.marks import Path


class EditStep(NamedTuple):
    """One change of a document, whose path is that after the steps before it."""

    document: Document
    edit: Edit


def edit_steps(document: Document, edits: Iterable[Edit]) -> Iterator[EditStep]:
    """The steps that make the edits of a document. Raises ``EditError`` for one that does not fit."""
    tree: Any = document.tree
    for edit in rebased(edits):
        for small in _small(tree, edit):
            yield EditStep(document, small)
        tree = apply_edits(tree, [edit])


def _small(tree: Any, edit: Edit) -> list[Edit]:
    if isinstance(edit, InsertItem) and not value_at(tree, edit.path):
        return [SetValue(edit.path, [edit.value])]
    if not isinstance(edit, SetValue) or not edit.path:
        return [edit]
    *above, last = edit.path
    around = value_at(tree, tuple(above))
    if last in around if isinstance(around, dict) else isinstance(around, list):
        return differences(edit.path, value_at(tree, edit.path), edit.value)
    return [SetValue(tuple(above), {last: edit.value})] if above and not around else [edit]


def differences(path: Path, old: Any, new: Any) -> list[Edit]:
    """The edits that make one value of another, at ``path``."""
    if json_equal(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() & new.keys():
        edits: list[Edit] = []
        before: str | None = None
        for key, value in new.items():
            if key in old:
                edits += differences((*path, key), old[key], value)
            else:
                edits.append(SetValue((*path, key), value, after=before, first=before is None))
            before = key
        return [*edits, *(Remove((*path, key)) for key in old if key not in new)]
    if isinstance(old, list) and isinstance(new, list) and old and new:
        if len(old) == len(new):
            return [edit for i in range(len(old)) for edit in differences((*path, i), old[i], new[i])]
        shared = min(len(old), len(new))
        if json_equal(old[:shared], new[:shared]):
            added: list[Edit] = [InsertItem(path, i, new[i]) for i in range(shared, len(new))]
            return added or [Remove((*path, i)) for i in range(len(old) - 1, shared - 1, -1)]
    return [SetValue(path, new)]


def split_independent(steps: Sequence[EditStep], trees: Mapping[Document, Any]) -> tuple[list[EditStep], list[EditStep]]:
    """Steps that can be made at once in documents of one origin, and those that must wait for others before them.

    ``trees`` are those of the documents before all of them.
    """
    taken: list[EditStep] = []
    waiting: list[EditStep] = []
    inside: set[tuple[int, Path]] = set()
    above: set[tuple[int, Path]] = set()
    for step in steps:
        path = (*step.document.base, *_reach(step.edit, trees[step.document]))
        prefixes = [(step.document.index, path[:depth]) for depth in range(len(path) + 1)]
        free = prefixes[-1] not in above and inside.isdisjoint(prefixes)
        (taken if free else waiting).append(step)
        inside.add(prefixes[-1])
        above.update(prefixes)
    return taken, waiting


def _reach(edit: Edit, tree: Any) -> Path:
    """The part of a document that an edit changes: a value, or a mapping or list when its members change."""
    if isinstance(edit, Nest | InsertItem | ReplaceText):
        return edit.path
    if isinstance(edit, SetValue) and _is_there(tree, edit.path):
        return edit.path
    return edit.path[:-1]


def _is_there(tree: Any, path: Path) -> bool:
    try:
        value_at(tree, path)
    except EditError:
        return False
    return True
