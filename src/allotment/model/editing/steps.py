"""Splits edits into minimal steps and selects the steps that can be applied together.

A value that is replaced by a similar one is changed only where the two differ, so that equal parts keep their text.
Steps in independent parts of a document are applied with a single parse of the text.
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
    """One change of a document. Its path refers to the document after the previous steps."""

    document: Document
    edit: Edit


def edit_steps(document: Document, edits: Iterable[Edit]) -> Iterator[EditStep]:
    """The steps for the edits of a document. Raises ``EditError`` for an edit that does not fit."""
    tree: Any = document.tree
    for edit in rebased(edits):
        for minimal in _minimal_edits(tree, edit):
            yield EditStep(document, minimal)
        tree = apply_edits(tree, [edit])


def _minimal_edits(tree: Any, edit: Edit) -> list[Edit]:
    if isinstance(edit, InsertItem) and not value_at(tree, edit.path):
        return [SetValue(edit.path, [edit.value])]
    if not isinstance(edit, SetValue) or not edit.path:
        return [edit]
    *ancestors, last = edit.path
    parent = value_at(tree, tuple(ancestors))
    if last in parent if isinstance(parent, dict) else isinstance(parent, list):
        return differences(edit.path, value_at(tree, edit.path), edit.value)
    return [SetValue(tuple(ancestors), {last: edit.value})] if ancestors and not parent else [edit]


def differences(path: Path, old: Any, new: Any) -> list[Edit]:
    """The edits that turn the value ``old`` at ``path`` into ``new``."""
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


def split_independent(
    steps: Sequence[EditStep], trees: Mapping[Document, Any]
) -> tuple[list[EditStep], list[EditStep]]:
    """Split steps into those that can be applied together in one text, and those that depend on earlier steps.

    ``trees``: the documents before all steps.
    """
    ready: list[EditStep] = []
    deferred: list[EditStep] = []
    changed: set[tuple[int, Path]] = set()
    ancestors: set[tuple[int, Path]] = set()
    for step in steps:
        path = (*step.document.base, *_affected_path(step.edit, trees[step.document]))
        prefixes = [(step.document.index, path[:depth]) for depth in range(len(path) + 1)]
        is_free = prefixes[-1] not in ancestors and changed.isdisjoint(prefixes)
        (ready if is_free else deferred).append(step)
        changed.add(prefixes[-1])
        ancestors.update(prefixes)
    return ready, deferred


def _affected_path(edit: Edit, tree: Any) -> Path:
    """The path of the value that an edit changes, or of the mapping or list whose members change."""
    if isinstance(edit, Nest | InsertItem | ReplaceText):
        return edit.path
    if isinstance(edit, SetValue) and _exists(tree, edit.path):
        return edit.path
    return edit.path[:-1]


def _exists(tree: Any, path: Path) -> bool:
    try:
        value_at(tree, path)
    except EditError:
        return False
    return True
