"""Passages: pieces of text of one category, with the lines of the file that they come from.

A phrase can be broken over lines, in a comment, a paragraph or a string. So a passage is as long as its text goes on,
its white space is single blanks, and the line of a word is looked up in the file when there is a hit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.language.word_list import Category

#: What may separate two words of a phrase in a file: white space, the end and start of strings, marks of comments.
_BETWEEN: Final = r"""[\s"'#/*>|-]+(?:[fr]["'])?"""


class Passage(NamedTuple):
    """A text with single blanks; ``first`` and ``last`` are its lines in the file, counted from 1."""

    text: str
    category: Category
    first: int
    last: int


def squeezed(text: str) -> str:
    """The text with single blanks for white space."""
    return " ".join(text.split())


class Locator:
    """Finds the lines of words in a passage, if they are searched in the order of the text."""

    def __init__(self, lines: Sequence[str], passage: Passage) -> None:
        self._first = passage.first
        self._raw = "\n".join(lines[passage.first - 1 : passage.last])
        self._position = 0

    def line_of(self, words: str) -> int:
        """The line of the next occurrence of these words; the passage's first line if they are spelled otherwise."""
        found = re.compile(_BETWEEN.join(map(re.escape, words.split()))).search(self._raw, self._position)
        if found is None:
            return self._first
        self._position = found.end()
        return self._first + self._raw.count("\n", 0, found.start())
