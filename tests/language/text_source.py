"""The texts of files in other formats: Markdown, and formats with comments after ``#``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tests.language.passages import Passage, squeezed
from tests.language.word_list import Category

_COMMENT: Final = re.compile(r"\s*(?:#|//|\{\{-?\s*/\*)")
_FENCE: Final = re.compile(r"\s*(```|~~~)")
#: Lines of Markdown that are not continued on the next: headings, rows of tables.
_ALONE: Final = re.compile(r"\s*(?:#{1,6} |\|)")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d+[.)]) ")


def markdown_passages(lines: Sequence[str], category: Category) -> Iterator[Passage]:
    """Paragraphs and list items as one passage each; headings, rows of tables and lines of code alone."""
    fenced = False
    start = 0

    def paragraph(last: int) -> Iterator[Passage]:
        if start:
            yield Passage(squeezed(" ".join(lines[start - 1 : last])), category, start, last)

    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line) is not None
        alone = fenced or fence or not line.strip() or _ALONE.match(line) is not None
        if alone or _ITEM.match(line):
            yield from paragraph(number - 1)
            start = 0 if alone else number
        elif not start:
            start = number
        if alone:
            yield Passage(squeezed(line), category, number, number)
        fenced ^= fence
    yield from paragraph(len(lines))


def line_passages(lines: Sequence[str], category: Category) -> Iterator[Passage]:
    """Runs of comment lines as one passage each, all other lines alone."""
    run: list[str] = []
    for number, line in enumerate((*lines, ""), 1):
        if mark := _COMMENT.match(line):
            run.append(line[mark.end() :])
            continue
        if run:
            yield Passage(squeezed(" ".join(run)), category, number - len(run), number - 1)
            run = []
        yield Passage(squeezed(line), category, number, number)
