"""Whether edits of one document can be applied together."""

from __future__ import annotations

from collections.abc import Iterator

from allotment.model.editing.edits import AddDocument, Edit, Nest, ReplaceText
from allotment.model.loading.marks import Path


def conflict(first: Edit, second: Edit) -> bool:
    """Whether two edits of one document change the same value, or one changes a value that contains the other's.

    >>> from allotment.model.editing.edits import Remove, SetValue
    >>> conflict(Remove(("spec",)), SetValue(("spec", "count"), 1)), conflict(Remove(("a",)), Remove(("b",)))
    (True, False)
    """
    if isinstance(first, AddDocument) or isinstance(second, AddDocument):
        return False
    if isinstance(first, ReplaceText) and isinstance(second, ReplaceText) and first.path == second.path:
        return first.start <= second.stop and second.start <= first.stop
    return any(
        longer[: len(shorter)] == shorter
        for path in _touched_paths(first)
        for other_path in _touched_paths(second)
        for shorter, longer in [sorted((path, other_path), key=len)]
    )


def _touched_paths(edit: Edit) -> Iterator[Path]:
    """The paths that an edit changes; edits of their siblings do not conflict."""
    if isinstance(edit, Nest):
        yield from ((*edit.path, key) for key in (*edit.keys, edit.under))
    else:
        yield edit.path
