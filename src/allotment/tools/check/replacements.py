"""Fixes as text replacements, for SARIF and editors; and the places that correspond to each other before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from allotment.model.editing.edits import Edit, EditError
from allotment.model.loading import Document
from allotment.time_limits import check_time
from allotment.tools.check.finding import SourceRange
from allotment.tools.check.rule import Fix


class Replacement(NamedTuple):
    """A range of a file, and the text that replaces it."""

    where: SourceRange
    text: str


def replacements(fix: Fix, sources: Mapping[str, str]) -> tuple[Replacement, ...]:
    """Return the replacements of a fix in order; empty if it cannot be applied on its own."""
    from allotment.model.editing.rewriting import rewrite

    check_time()
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
    # The time of the comparison grows with the square of the lines, and a fix changes few of them.
    head = _equal_at_start(old, new)
    tail = _equal_at_start(old[head:][::-1], new[head:][::-1])
    changed = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, *numbers in changed.get_opcodes():
        if tag == "equal":
            continue
        begin, end, first, last = (number + head for number in numbers)
        text = "".join(new[first:last])
        if end - begin == 1 == last - first:
            start, stop, inner = _inside(old[begin], text)
            yield Replacement(SourceRange(file, begin + 1, start + 1, begin + 1, stop + 1), inner)
        else:
            yield Replacement(SourceRange(file, begin + 1, 1, end + 1, 1), text)


def _equal_at_start(some: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of lines with which both begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(some, others, strict=False)))


def corresponding_range(where: SourceRange, text: str, other: str) -> SourceRange:
    """Return the place in another version of a text that corresponds to a range of the text.

    Lines correspond if they differ only in what surrounds a value: indentation and dashes, which fixes change when they
    move it. An added line corresponds to the line before it.
    """
    if text == other:
        return where
    aligned = _aligned(text, other)
    begin, end = aligned.place(where.line, where.column), aligned.place(where.end_line, where.end_column)
    return SourceRange(where.file, *begin, *max(begin, end))


class _Alignment(NamedTuple):
    """The lines of two versions of a text. ``changes``: those that turn ``others`` into ``lines``."""

    lines: tuple[str, ...]
    others: tuple[str, ...]
    changes: tuple[tuple[str, int, int, int, int], ...]

    def place(self, line: int, column: int) -> tuple[int, int]:
        """Return the line and column in ``others`` that correspond to those in ``lines``."""
        for tag, begin, end, first, last in self.changes:
            if not first < line <= last:
                continue
            if begin == end:
                return max(begin, 1), 1
            number = min(begin + line - first, end)
            here, there = self.lines[line - 1], self.others[number - 1]
            if tag == "equal":
                return number, max(1, column + _margin(there) - _margin(here))
            start, stop, text = _inside(here, there)
            if column > stop:
                return number, column + len(text) - (stop - start)
            return number, min(column, start + 1)
        return max(len(self.others), 1), 1  # the end of the file


@lru_cache(maxsize=8)  # a file may have many findings
def _aligned(text: str, other: str) -> _Alignment:
    lines, others = tuple(text.splitlines()), tuple(other.splitlines())
    documents, other_documents = _documents(lines), _documents(others)
    more = len(documents) - len(other_documents)
    documents += [(len(lines), len(lines))] * -more
    other_documents += [(len(others), len(others))] * more
    changes: list[tuple[str, int, int, int, int]] = []
    # Document by document: the time grows with the square of the number of equal lines.
    for (first, last), (begin, end) in zip(documents, other_documents, strict=True):
        matcher = SequenceMatcher(
            None, list(map(_value, others[begin:end])), list(map(_value, lines[first:last])), autojunk=False
        )
        changes += (
            (tag, begin + old, begin + old_end, first + new, first + new_end)
            for tag, old, old_end, new, new_end in matcher.get_opcodes()
        )
    return _Alignment(lines, others, tuple(changes))


def _documents(lines: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the ranges of the documents of a YAML stream."""
    starts = [0, *(number for number, line in enumerate(lines) if number and line.startswith("---"))]
    return list(pairwise([*starts, len(lines)]))


def _value(line: str) -> str:
    return line[_margin(line) :].rstrip() or line


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))


def _inside(old: str, new: str) -> tuple[int, int, str]:
    """Return the columns in which two lines differ, and the new text there."""
    most = min(len(old), len(new))
    start = next((n for n in range(most) if old[n] != new[n]), most)
    tail = next((n for n in range(most - start) if old[-1 - n] != new[-1 - n]), most - start)
    return start, len(old) - tail, new[start : len(new) - tail]
