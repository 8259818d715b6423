"""Code frames: a source line with its number, and the range underlined.

Used for invalid inputs and for the findings of ``allot check``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_NUMBER: Final = 5
#: Columns besides the source text: the line number, a bar between blanks, and a margin.
_AROUND: Final = _NUMBER + 5
_CUT: Final = "…"
#: The replacement character. Lines with many of them, or with many control characters, are not shown.
_NO_TEXT: Final = "\ufffd"


class Frame(NamedTuple):
    """Two lines of output in parts that can be coloured: the margins, the source line, the marks below it."""

    margin: str
    text: str
    margin_below: str
    marks: str

    @property
    def lines(self) -> tuple[str, str]:
        """Return the two lines without colour."""
        return f"{self.margin}{self.text}".rstrip(), f"{self.margin_below}{self.marks}"


def frame(lines: Sequence[str], line: int, column: int, end: int | None, width: int) -> Frame | None:
    """Return the frame for columns ``column`` to ``end`` (from 1, ``end`` exclusive, None: one column) of a line.

    A line longer than ``width`` columns is truncated around the range. Returns None if the line is missing, blank, or
    not text.

    >>> print(*frame(["a: 1", "b: [x]"], 2, 4, 7, 80).lines, sep="\\n")
        2 | b: [x]
          |    ^^^
    """
    if not 1 <= line <= len(lines) or not lines[line - 1].strip():
        return None
    text = lines[line - 1].rstrip()
    begin = max(column - 1, 0)
    stop = max(min(end - 1 if end is not None else begin + 1, len(text)), begin + 1)
    text, begin, stop = _window(text, begin, stop, max(width - _AROUND, 10))
    if 4 * sum(not char.isprintable() or char == _NO_TEXT for char in text) > len(text):
        return None
    shown = "".join(char if char.isprintable() else " " for char in text)
    before = cells(shown[:begin]) + max(begin - len(shown), 0)
    within = max(cells(shown[begin:stop]), 1)
    number = f"{line:>{_NUMBER}}"
    return Frame(f"{number} | ", shown, f"{' ' * len(number)} | ", f"{' ' * before}{'^' * within}")


def _window(text: str, begin: int, stop: int, room: int) -> tuple[str, int, int]:
    """Return the part of a line around the range ``begin`` to ``stop`` that fits the width."""
    if len(text) <= room:
        return text, begin, min(stop, max(len(text), begin + 1))
    indented = len(text) - len(text.lstrip())
    # A quarter of the width is for the context before the range.
    start = max(0, min(begin - room // 4, len(text) - room))
    if 0 < indented <= begin and len(text) - indented < room:
        start = indented - 1
    elif stop - start > room:
        # A long range has less context; one that exceeds the width is shown from its start.
        start = max(0, min(begin - 1, stop - room))
    cut = text[start : start + room]
    if start:
        cut = _CUT + cut[1:]
    if start + room < len(text):
        cut = cut[:-1] + _CUT
    return cut, begin - start, max(min(stop - start, len(cut)), begin - start + 1)


def cells(text: str) -> int:
    """Return the width of a text in terminal columns: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
