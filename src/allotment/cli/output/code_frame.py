"""A place in a file as a person sees it: the line with its number, and below it what is meant, underlined.

Mistakes in any input and the findings of ``allot check`` are shown by this one frame.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

_NUMBER: Final = 5
#: Columns that are no part of the line shown: the number, a bar between blanks, and a little air.
_AROUND: Final = _NUMBER + 5
_CUT: Final = "…"
#: What stands for bytes that are no text. A line with many of them, or with many control characters, says nothing.
_NO_TEXT: Final = "\ufffd"


class Frame(NamedTuple):
    """Two lines of a screen, in pieces that may be painted: the margins, the file's line, the marks below it."""

    margin: str
    text: str
    margin_below: str
    marks: str

    @property
    def lines(self) -> tuple[str, str]:
        """The two lines, plain."""
        return f"{self.margin}{self.text}".rstrip(), f"{self.margin_below}{self.marks}"


def frame(lines: Sequence[str], line: int, column: int, end: int | None, width: int) -> Frame | None:
    """The frame of columns ``column`` to ``end`` (from 1, ``end`` exclusive, None: one column) of a line.

    Of a line that is longer than ``width`` columns only the surroundings of the place are shown. None where the line
    is not to be had, is blank, or is no text.

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
    """As much of a line as there is room for, around its piece from ``begin`` to ``stop``."""
    if len(text) <= room:
        return text, begin, min(stop, max(len(text), begin + 1))
    indented = len(text) - len(text.lstrip())
    # Three parts of four belong to the piece and what follows it; what is before it says where one is.
    start = max(0, min(begin - room // 4, len(text) - room))
    if 0 < indented <= begin and len(text) - indented < room:
        start = indented - 1
    elif stop - start > room:
        # A long piece has less before it; one that is longer than the room is shown from its beginning.
        start = max(0, min(begin - 1, stop - room))
    cut = text[start : start + room]
    if start:
        cut = _CUT + cut[1:]
    if start + room < len(text):
        cut = cut[:-1] + _CUT
    return cut, begin - start, max(min(stop - start, len(cut)), begin - start + 1)


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: ideographs two, what combines with the letter before it none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
