"""Expressions that do not compile for a reason that everybody meets once, written as they were meant.

Whether the new text compiles, and whether the claims fit with it, is for the caller to try.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_STRING = re.compile(r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')")
_AMOUNT = r"(device\.capacity\s*\[[^\]]*\]\s*\.\s*\w+)"
_VALUE = r"(device\.(?:capacity|attributes)\s*\[[^\]]*\]\s*\.\s*\w+)"
_ORDER = r"\s*(<=|>=|<|>)\s*"
_QUOTED = r"(?:\"[^\"\\]*\"|'[^'\\]*')"


class Meant(NamedTuple):
    """What to do about an expression, in words, and the whole expression after it."""

    words: str
    expression: str


def meant(expression: str) -> Iterator[Meant]:
    """The expression with one kind of slip mended, for each kind that it has; then with all of them.

    >>> [m.expression for m in meant('device.capacity["d"].memory >= quantity("40Gi")')]
    ['device.capacity["d"].memory.compareTo(quantity("40Gi")) >= 0']
    >>> [m.expression for m in meant('device.attributes["d"].a = "x=y" and true')]
    ['device.attributes["d"].a == "x=y" and true', 'device.attributes["d"].a = "x=y" && true', \
'device.attributes["d"].a == "x=y" && true']
    """
    applied = [(words, mend) for words, mend in _MENDS if mend(expression) != expression]
    for words, mend in applied:
        yield Meant(words, mend(expression))
    if len(applied) > 1:
        whole = expression
        for _, mend in applied:
            whole = mend(whole)
        yield Meant(", ".join(words for words, _ in applied), whole)


def _anywhere(pattern: str, becomes: str) -> Callable[[str], str]:
    found = re.compile(pattern)
    return lambda text: found.sub(becomes, text)


def _outside_strings(pattern: str, becomes: str) -> Callable[[str], str]:
    found = re.compile(pattern)
    return lambda text: "".join(
        part if number % 2 else found.sub(becomes, part) for number, part in enumerate(_STRING.split(text))
    )


_MENDS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (
        "compare with compareTo",
        _anywhere(rf"{_VALUE}{_ORDER}((?:quantity|semver)\({_QUOTED}\))", r"\1.compareTo(\3) \2 0"),
    ),
    ("compare with a quantity", _anywhere(rf"{_AMOUNT}{_ORDER}({_QUOTED})", r"\1.compareTo(quantity(\3)) \2 0")),
    ("write == for =", _outside_strings(r"(?<![=!<>])=(?!=)", "==")),
    ("write && for and", _outside_strings(r"\band\b", "&&")),
    ("write || for or", _outside_strings(r"\bor\b", "||")),
)
