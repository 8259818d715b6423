"""Fixes as text replacements, for SARIF and editors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import NamedTuple

from allotment.model.editing.edits import Edit, EditError
from allotment.model.loading import Document
from allotment.tools.check.finding import SourceRange
from allotment.tools.check.rule import Fix


class Replacement(NamedTuple):
    """A range of a file, and the text that replaces it."""

    where: SourceRange
    text: str


def replacements(fix: Fix, sources: Mapping[str, str]) -> tuple[Replacement, ...]:
    """Return the replacements of a fix in order; empty if it cannot be applied on its own."""
    from allotment.model.editing.rewriting import rewrite

    by_file: dict[str, list[tuple[Document, Edit]]] = {}
    for document, edit in fix.edits:
        by_file.setdefault(document.file, []).append((document, edit))
    found: list[Replacement] = []
    for file, edits in sorted(by_file.items()):
        source = sources.get(file)
        if source is None:
            return ()
        try:
            found += differences(file, source, rewrite(source, file, edits))
        except EditError:
            return ()
    return tuple(found)


def differences(file: str, before: str, after: str) -> Iterator[Replacement]:
    """Return the replacements that turn one text into another: whole lines, or the part of a single line."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for tag, begin, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        text = "".join(new[first:last])
        if end - begin == 1 == last - first:
            start, stop, inner = _inside(old[begin], text)
            yield Replacement(SourceRange(file, begin + 1, start + 1, begin + 1, stop + 1), inner)
        else:
            yield Replacement(SourceRange(file, begin + 1, 1, end + 1, 1), text)


def _inside(old: str, new: str) -> tuple[int, int, str]:
    """Return the columns in which two lines differ, and the new text there."""
    most = min(len(old), len(new))
    start = next((n for n in range(most) if old[n] != new[n]), most)
    tail = next((n for n in range(most - start) if old[-1 - n] != new[-1 - n]), most - start)
    return start, len(old) - tail, new[start : len(new) - tail]
