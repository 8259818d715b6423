"""Parser for the format strings of ``string.format``, used by the static check and at run time.

It implements the rules before version 4 of the strings library: clauses ``s d f e b x X o``, a precision ``.N`` that
only ``f`` and ``e`` use, ``%%`` for a percent sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_CLAUSES = frozenset("sdfebxXo")


class FormatError(ValueError):
    """Raised for an invalid format string or missing arguments; the text is upstream's."""


class Clause(NamedTuple):
    """One ``%`` clause: its letter, its precision if any, and the index of its argument."""

    letter: str
    precision: int | None
    argument: int


def clauses(text: str, arguments: int) -> Iterator[str | Clause]:
    """Yields literal text and clauses in order. ``arguments`` is the number of arguments.

    FormatError is raised lazily, because errors of the arguments of earlier clauses come first.

    >>> list(clauses("%s is %.2f%%", 2))
    [Clause(letter='s', precision=None, argument=0), ' is ', Clause(letter='f', precision=2, argument=1), '%']
    """
    at = 0
    index = 0
    while True:
        percent = text.find("%", at)
        if percent < 0:
            if at < len(text):
                yield text[at:]
            return
        if at < percent:
            yield text[at:percent]
        at = percent + 1
        if text.startswith("%", at):
            yield "%"
            at += 1
            continue
        if at == len(text):
            raise FormatError("unexpected end of string")
        if index >= arguments:
            raise FormatError(f"index {index} out of range")
        at, precision = _precision(text, at)
        letter = text[at]
        if letter not in _CLAUSES:
            # Upstream reads bytes: its error shows the first byte of a multi-byte character.
            shown = letter if letter < "\x80" else chr(letter.encode("utf-8", "replace")[0])
            raise FormatError(f'could not parse formatting clause: unrecognized formatting clause "{shown}"')
        at += 1
        yield Clause(letter, precision, index)
        index += 1


def _precision(text: str, at: int) -> tuple[int, int | None]:
    """The offset after an optional ``.N``, and its value."""
    if text[at] != ".":
        return at, None
    end = at + 1
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    wrong = "could not parse formatting clause: error while parsing precision: "
    if end == len(text):
        raise FormatError(f"{wrong}could not find end of precision specifier")
    digits = text[at + 1 : end]
    problem = "invalid syntax" if not digits else "value out of range"
    if not digits or len(digits.lstrip("0")) > 19 or int(digits) > 2**63 - 1:
        raise FormatError(
            f'{wrong}error while converting precision to integer: strconv.Atoi: parsing "{digits}": {problem}'
        )
    return end, int(digits)
