"""Finds the comments of a YAML text, which are not part of the parsed tree.

In block scalars and quoted strings ``#`` is text. The spans of all scalars, as the parser reports them, are therefore
masked; in the rest, ``#`` at the start of a line or after white space starts a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import yaml

from allotment.model.loading.manifest_text import chunks
from allotment.model.loading.yaml_parser import Parser

_LineColumn: TypeAlias = tuple[int, int]

_COMMENT: Final = re.compile(r"(?:^|(?<=[\s,\]}]))#(.*)")


class Comment(NamedTuple):
    """A comment: the line and column of its ``#`` (both from 1), and the text after it.

    ``own_line``: nothing else is on the line.
    """

    line: int
    column: int
    text: str
    own_line: bool


class Comments(NamedTuple):
    """The comments of a text, in order.

    ``multiline_scalars``: first and last line of each scalar with several lines. ``document_starts``: the line of the
    first value of each document.
    """

    comments: tuple[Comment, ...] = ()
    multiline_scalars: tuple[tuple[int, int], ...] = ()
    document_starts: tuple[int, ...] = ()


def find_comments(text: str) -> Comments:
    """The comments of a YAML text. Of a document with a syntax error, the comments before the error.

    >>> find_comments("a: |  # one\\n  # text\\n# two\\nb: 'it # is'\\n").comments
    (Comment(line=1, column=7, text=' one', own_line=False), Comment(line=3, column=1, text=' two', own_line=True))
    """
    comments: list[Comment] = []
    scalars: list[tuple[int, int]] = []
    documents: list[int] = []
    text = text.removeprefix("\ufeff")
    lines = text.splitlines()
    masked = [*lines]
    for chunk, first_line, _ in chunks(text):
        for first, start, end in _scalar_spans(chunk, documents, first_line):
            last = end[0] if end[1] else end[0] - 1
            if first < last:
                scalars.append((first_line + first, first_line + last))
            _mask(masked, lines, (first_line - 1 + start[0], start[1]), (first_line - 1 + end[0], end[1]))
    for number, line in enumerate(masked):
        if match := _COMMENT.search(line):
            own_line = not lines[number][: match.start()].strip()
            comments.append(Comment(number + 1, match.start() + 1, match[1].rstrip(), own_line))
    return Comments(tuple(comments), tuple(scalars), tuple(documents))


def _scalar_spans(chunk: str, documents: list[int], first_line: int) -> Iterator[tuple[int, _LineColumn, _LineColumn]]:
    """Yield for each scalar its line, and the line and column of the start and end of its text, counted from 0."""
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
                        # The line of the block indicator can end with a comment.
                        begin = (start.line + 1, 0)
                    if begin < (end.line, end.column):
                        yield start.line, begin, (end.line, end.column)
        finally:
            parser.dispose()
    except yaml.YAMLError:
        return


def _mask(masked: list[str], lines: list[str], begin: _LineColumn, end: _LineColumn) -> None:
    """Mask a scalar in the lines."""
    for number in range(begin[0], min(end[0] + 1, len(lines))):
        start = begin[1] if number == begin[0] else 0
        stop = end[1] if number == end[0] else len(lines[number])
        masked[number] = f"{masked[number][:start]}{'x' * (stop - start)}{masked[number][stop:]}"
