"""Several edits of one document: all paths are those of the document as it is written, whatever edits came before.

Edits are done one after the other, so what an earlier one moved is looked up where it stands by then. What an earlier
edit made has no place in the document as written; it is named by the path that it has got.
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
    """The edits, each with the path that its place has after those before it. Raises ``EditError``."""
    pending = list(edits)
    while pending:
        edit = pending.pop(0)
        yield edit
        pending = [rebase(later, edit) for later in pending]


def rebase(edit: Edit, done: Edit) -> Edit:
    """``edit`` as it is to be done after ``done``. Raises ``EditError`` when its place is gone."""
    if isinstance(edit, ReplaceText) and isinstance(done, ReplaceText) and edit.path == done.path:
        return _shifted(edit, done)
    if isinstance(edit, InsertItem):
        number = _number(edit, done)
        return edit._replace(path=_path(edit.path, done), index=number)
    if isinstance(edit, SetValue) and edit.after is not None:
        edit = edit._replace(after=_name(edit.after, edit.path[:-1], done))
    elif isinstance(edit, Nest):
        edit = edit._replace(keys=tuple(_name(key, edit.path, done) for key in edit.keys))
    return edit._replace(path=_path(edit.path, done))


def _path(path: Path, done: Edit) -> Path:
    above = done.path
    depth = len(above)
    if isinstance(done, Nest | InsertItem):
        if path[:depth] != above or len(path) == depth:
            return path
        step = path[depth]
        if isinstance(done, Nest):
            return (*above, done.under, *path[depth:]) if step in done.keys else path
        return (*above, step + 1, *path[depth + 1 :]) if isinstance(step, int) and step >= done.index else path
    if isinstance(done, Remove):
        return _after_removal(path, above)
    if path[:depth] != above:
        return path
    if isinstance(done, RenameKey):
        return (*above[:-1], done.name, *path[depth:])
    if isinstance(done, Lift) and len(path) > depth:
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
        raise EditError(f"{join_path(path)} is removed and changed at once")
    return (*path[:depth], step - 1, *path[depth + 1 :])


def _name(name: str, mapping: Path, done: Edit) -> str:
    """What a field of a mapping is called after an edit."""
    return done.name if isinstance(done, RenameKey) and done.path == (*mapping, name) else name


def _number(edit: InsertItem, done: Edit) -> int:
    if isinstance(done, InsertItem) and done.path == edit.path and done.index <= edit.index:
        return edit.index + 1
    if isinstance(done, Remove) and done.path[:-1] == edit.path:
        last = done.path[-1]
        return edit.index - 1 if isinstance(last, int) and last < edit.index else edit.index
    return edit.index


def _shifted(edit: ReplaceText, done: ReplaceText) -> ReplaceText:
    if edit.start >= done.stop:
        by = len(done.text) - (done.stop - done.start)
        return edit._replace(start=edit.start + by, stop=edit.stop + by)
    if edit.stop <= done.start:
        return edit
    raise EditError(f"two changes of the same part of {join_path(edit.path)}")
