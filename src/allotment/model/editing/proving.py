"""The proof that a rewritten file holds what was meant, and that nobody's comments are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from allotment.model.editing.edits import EditError
from allotment.model.editing.tree_edits import json_equal
from allotment.model.loading import load_text
from allotment.model.loading.comments import find_comments
from allotment.model.loading.documents import Document


def prove(old: str, new: str, file: str, expected: Mapping[int, Any]) -> None:
    """Reads a rewritten file again. ``expected`` are the trees of the documents that changed, by their index.

    Raises ``EditError``.
    """
    before, after = load_text(old, file), load_text(new, file)
    if [problem.code for problem in before.problems] != [problem.code for problem in after.problems]:
        raise EditError(unreadable(old, after.problems[0].message if after.problems else "a problem of it is gone"))
    if len(before.documents) != len(after.documents):
        raise EditError(reason(old, f"{len(before.documents)} documents became {len(after.documents)}"))
    for was, now in zip(before.documents, after.documents, strict=True):
        if not json_equal(now.tree, expected.get(was.index, was.tree)):
            raise EditError(reason(old, f"{_called(was)} would not be what was meant"))
    wanted, found = _comments(before.documents), _comments(after.documents)
    if wanted != found:
        gone = next(iter(wanted - found), None)
        raise EditError("a comment would be written twice" if gone is None else f"a comment would be lost: # {gone}")


def _comments(documents: Iterable[Document]) -> Counter[str]:
    """The comments of the parts of a file in which documents stand; JSON has none."""
    parts = {d.origin.offset: d.origin.text for d in documents if not d.origin.json}
    return Counter(comment.text.strip() for part in parts.values() for comment in find_comments(part).comments)


def _called(document: Document) -> str:
    return f"{document.kind} {document.name}".strip() or f"document {document.index + 1}"


def unreadable(old: str, words: str) -> str:
    """Why a text cannot be changed, where ``words`` tell why nobody could read what would become of it."""
    return reason(old, f"it is written in a way that cannot be changed safely here ({words})")


def reason(old: str, words: str) -> str:
    """Why a text cannot be changed as was meant, where ``words`` tell what would become of it."""
    shared = "&" in old and "*" in old
    return f"it shares a value with something else, through an anchor ({words})" if shared else words
