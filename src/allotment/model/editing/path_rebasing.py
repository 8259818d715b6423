"""Converts the paths of several edits of one document for application one after another.

All edits of a document use paths of the original document. Each applied edit can move values, so the paths of the
remaining edits are rebased. A value that an earlier edit created is not in the original document; later edits refer to
it by its new path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
from allotment.model.loading.marks import Path, join_path


def rebased(edits: Iterable[Edit]) -> Iterator[Edit]:
    """The edits, each with its path after the previous edits. Raises ``EditError``."""
    pending = list(edits)
    while pending:
        edit = pending.pop(0)
        yield edit
        pending = [rebase(later, edit) for later in pending]


def rebase(edit: Edit, applied: Edit) -> Edit:
    """Convert ``edit`` for application after ``applied``. Raises ``EditError`` if its target was removed."""
    if isinstance(edit, ReplaceText) and isinstance(applied, ReplaceText) and edit.path == applied.path:
        return _shift_text(edit, applied)
    if isinstance(edit, InsertItem):
        index = _rebase_index(edit, applied)
        return edit._replace(path=_rebase_path(edit.path, applied), position=index)
    if isinstance(edit, SetValue) and edit.after is not None:
        edit = edit._replace(after=_rebase_key(edit.after, edit.path[:-1], applied))
    elif isinstance(edit, Nest):
        edit = edit._replace(keys=tuple(_rebase_key(key, edit.path, applied) for key in edit.keys))
    return edit._replace(path=_rebase_path(edit.path, applied))


def _rebase_path(path: Path, applied: Edit) -> Path:
    above = applied.path
    depth = len(above)
    if isinstance(applied, Nest | InsertItem):
        if path[:depth] != above or len(path) == depth:
            return path
        step = path[depth]
        if isinstance(applied, Nest):
            return (*above, applied.under, *path[depth:]) if step in applied.keys else path
        return (*above, step + 1, *path[depth + 1 :]) if isinstance(step, int) and step >= applied.position else path
    if isinstance(applied, Remove):
        return _after_removal(path, above)
    if path[:depth] != above:
        return path
    if isinstance(applied, RenameKey):
        return (*above[:-1], applied.name, *path[depth:])
    if isinstance(applied, Lift) and len(path) > depth:
        return (*above[:-1], *path[depth:])
    return path


def _after_removal(path: Path, removed: Path) -> Path:
    last = removed[-1] if removed else None
    depth = len(removed) - 1
    if not isinstance(last, int) or path[:depth] != removed[:-1] or len(path) <= depth:
        return path
    step = path[depth]
    if not isinstance(step, int) or step < last:
        return path
    if step == last:
        raise EditError(f"{join_path(path)} is both removed and changed")
    return (*path[:depth], step - 1, *path[depth + 1 :])


def _rebase_key(name: str, mapping: Path, applied: Edit) -> str:
    """The name of a field of ``mapping`` after an edit."""
    return applied.name if isinstance(applied, RenameKey) and applied.path == (*mapping, name) else name


def _rebase_index(edit: InsertItem, applied: Edit) -> int:
    if isinstance(applied, InsertItem) and applied.path == edit.path and applied.position <= edit.position:
        return edit.position + 1
    if isinstance(applied, Remove) and applied.path[:-1] == edit.path:
        last = applied.path[-1]
        return edit.position - 1 if isinstance(last, int) and last < edit.position else edit.position
    return edit.position


def _shift_text(edit: ReplaceText, applied: ReplaceText) -> ReplaceText:
    if edit.start >= applied.stop:
        shift = len(applied.text) - (applied.stop - applied.start)
        return edit._replace(start=edit.start + shift, stop=edit.stop + shift)
    if edit.stop <= applied.start:
        return edit
    raise EditError(f"two edits change the same part of {join_path(edit.path)}")
