"""The comments of a text, which no tree holds: what stands behind ``#`` outside of every scalar.

In a block scalar or in quotes ``#`` is text. Which is which only the parser can tell, so its scalars are left out and
what then follows a ``#`` at the start of a line or behind a blank is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import yaml

from allotment.model.loading.manifest_text import chunks
from allotment.model.loading.yaml_parser import Parser

_Place: TypeAlias = tuple[int, int]

_COMMENT: Final = re.compile(r"(?:^|(?<=[\s,\]}]))#(.*)")


class Comment(NamedTuple):
    """A comment: its line and the column of its ``#`` (both from 1), and the text behind it.

    ``alone``: nothing else stands on its line.
    """

    line: int
    column: int
    text: str
    own_line: bool


class Comments(NamedTuple):
    """The comments of a text in their order; ``first`` and ``last`` line of every scalar of several lines.

    ``documents`` are the lines on which the first value of each document begins.
    """

    comments: tuple[Comment, ...] = ()
    multiline_scalars: tuple[tuple[int, int], ...] = ()
    document_starts: tuple[int, ...] = ()


def find_comments(text: str) -> Comments:
    """The comments of a YAML text; where a document cannot be read, those before the place where it breaks.

    >>> commentary("a: |  # one\\n  # text\\n# two\\nb: 'it # is'\\n").comments
    (Comment(line=1, column=7, text=' one', alone=False), Comment(line=3, column=1, text=' two', alone=True))
    """
    comments: list[Comment] = []
    scalars: list[tuple[int, int]] = []
    documents: list[int] = []
    text = text.removeprefix("\ufeff")
    lines = text.splitlines()
    shown = [*lines]
    for chunk, first_line, _ in chunks(text):
        for first, begin, end in _scalars(chunk, documents, first_line):
            last = end[0] if end[1] else end[0] - 1
            if first < last:
                scalars.append((first_line + first, first_line + last))
            _blank(shown, lines, (first_line - 1 + begin[0], begin[1]), (first_line - 1 + end[0], end[1]))
    for number, line in enumerate(shown):
        if found := _COMMENT.search(line):
            alone = not lines[number][: found.start()].strip()
            comments.append(Comment(number + 1, found.start() + 1, found[1].rstrip(), alone))
    return Comments(tuple(comments), tuple(scalars), tuple(documents))


def _scalars(chunk: str, documents: list[int], first_line: int) -> Iterator[tuple[int, _Place, _Place]]:
    """Of each scalar the line on which it stands, and where its text begins and ends: line and column, from 0."""
    at_start = False
    try:
        parser = Parser(chunk)
        try:
            while parser.check_event():
                event = parser.get_event()
                kind = type(event)
                if at_start and kind is not yaml.DocumentEndEvent:
                    documents.append(first_line + event.start_mark.line)
                at_start = kind is yaml.DocumentStartEvent
                if kind is yaml.ScalarEvent:
                    start, end = event.start_mark, event.end_mark
                    begin = (start.line, start.column)
                    if event.style in ("|", ">"):
                        # A comment may stand behind the indicator, on the line where the block begins.
                        begin = (start.line + 1, 0)
                    if begin < (end.line, end.column):
                        yield start.line, begin, (end.line, end.column)
        finally:
            parser.dispose()
    except yaml.YAMLError:
        return


def _blank(shown: list[str], lines: list[str], begin: _Place, end: _Place) -> None:
    """Take a scalar out of the lines."""
    for number in range(begin[0], min(end[0] + 1, len(lines))):
        start = begin[1] if number == begin[0] else 0
        stop = end[1] if number == end[0] else len(lines[number])
        shown[number] = f"{shown[number][:start]}{'x' * (stop - start)}{shown[number][stop:]}"
