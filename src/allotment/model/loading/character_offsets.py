"""Where each character of a string stands in the text: through quotes, escapes, folds and the indentation of blocks.

A finding inside an expression points at the very characters, however the expression is written. The rules are those of
YAML 1.1 as libyaml applies them; JSON's strings are double-quoted ones with surrogate pairs.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_PROPERTIES: Final = re.compile(r"(?:[&!]\S*(?:\s|#[^\n]*(?=\n))+)*")
_HEADER: Final = re.compile(
    r"([|>])([-+0-9]{0,2})[ \t]*(?:#[^\r\n\x85\u2028\u2029]*)?(?:\r\n|[\r\n\x85\u2028\u2029]|\Z)"
)
_BREAKS: Final = "\r\n\x85\u2028\u2029"
_ESCAPES: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b",
    " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_WIDTHS: Final = {"x": 2, "u": 4, "U": 8}


class CharacterOffsets(NamedTuple):
    """A scalar's characters. Character ``i`` of ``value`` is written from ``starts[i]`` to ``stops[i]``."""

    value: str
    starts: list[int]
    stops: list[int]

    def span(self, start: int, stop: int) -> tuple[int, int] | None:
        """Where the characters from ``start`` to ``stop`` are written; None when there are not so many."""
        if not 0 <= start <= stop <= len(self.value):
            return None
        if start == stop:
            before = self.stops[start - 1] if start else self.starts[0] if self.starts else None
            return None if before is None else (before, before)
        return self.starts[start], self.stops[stop - 1]


class _Writer:
    def __init__(self) -> None:
        self.value: list[str] = []
        self.starts: list[int] = []
        self.stops: list[int] = []

    def put(self, letter: str, start: int, stop: int) -> None:
        self.value.append(letter)
        self.starts.append(start)
        self.stops.append(stop)

    def letters(self) -> CharacterOffsets:
        return CharacterOffsets("".join(self.value), self.starts, self.stops)


def character_offsets(text: str, start: int, stop: int, indent: int) -> CharacterOffsets:
    """The characters of the scalar written from ``start`` to ``stop``, which the parser has accepted.

    ``indent`` is the column of the block around it, -1 where there is none; indentation given in a block scalar's
    header counts from there.
    """
    properties = _PROPERTIES.match(text, start, stop)
    start = properties.end() if properties else start
    opening = text[start : start + 1] if start < stop else ""
    if opening in ("|", ">"):
        return _block(text, start, indent)
    writer = _Writer()
    if opening == "'":
        _single(writer, text, start + 1, stop - 1)
    elif opening == '"':
        _double(writer, text, start + 1, stop - 1)
    else:
        _flow(writer, text, start, stop)
    return writer.letters()


# --- flow scalars ----------------------------------------------------------------------------------------------------


def _flow(writer: _Writer, text: str, at: int, stop: int) -> None:
    while at < stop:
        if text[at] in " \t" or text[at] in _BREAKS:
            at = _blank(writer, text, at, stop)
        else:
            writer.put(text[at], at, at + 1)
            at += 1


def _single(writer: _Writer, text: str, at: int, stop: int) -> None:
    while at < stop:
        if text[at] in " \t" or text[at] in _BREAKS:
            at = _blank(writer, text, at, stop)
        else:
            width = 2 if text[at] == "'" else 1
            writer.put(text[at], at, at + width)
            at += width


def _double(writer: _Writer, text: str, at: int, stop: int) -> None:
    while at < stop:
        if text[at] in " \t" or text[at] in _BREAKS:
            at = _blank(writer, text, at, stop)
        elif text[at] != "\\":
            writer.put(text[at], at, at + 1)
            at += 1
        elif text[at + 1] in _BREAKS:
            at = _blank(writer, text, _break(text, at + 1), stop, escaped=True)
        elif text[at + 1] in _WIDTHS:
            letter, end = _coded(text, at)
            writer.put(letter, at, end)
            at = end
        else:
            writer.put(_ESCAPES.get(text[at + 1], text[at + 1]), at, at + 2)
            at += 2


def _coded(text: str, at: int) -> tuple[str, int]:
    end = at + 2 + _WIDTHS[text[at + 1]]
    code = int(text[at + 2 : end], 16)
    if 0xD800 <= code < 0xDC00 and text[end : end + 2] == "\\u":  # JSON's way beyond 16 bits
        low = int(text[end + 2 : end + 6], 16)
        if 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), end + 6
    return chr(code), end


def _blank(writer: _Writer, text: str, at: int, stop: int, *, escaped: bool = False) -> int:
    """White space within a flow scalar: as it is within a line, folded over line breaks. Gives where it ends."""
    start = at
    breaks: list[tuple[int, int]] = []
    while at < stop:
        if text[at] in _BREAKS:
            after = _break(text, at)
            breaks.append((at, after))
            at = after
        elif text[at] in " \t":
            at += 1
        else:
            break
    if escaped:
        pass  # the break before was escaped: it folds to nothing, and those after it count
    elif not breaks:
        for place in range(start, at):
            writer.put(text[place], place, place + 1)
        return at
    elif _broken(text, breaks[0]) != "\n":  # a separator of paragraphs is kept
        pass
    elif len(breaks) == 1:
        writer.put(" ", start, at)
        return at
    else:
        breaks = breaks[1:]
    for found in breaks:
        writer.put(_broken(text, found), *found)
    return at


def _break(text: str, at: int) -> int:
    return at + 2 if text[at : at + 2] == "\r\n" else at + 1


def _broken(text: str, place: tuple[int, int]) -> str:
    letter = text[place[0]]
    return letter if letter in "\u2028\u2029" else "\n"


# --- block scalars ---------------------------------------------------------------------------------------------------


def _block(text: str, start: int, parent: int) -> CharacterOffsets:
    writer = _Writer()
    header = _HEADER.match(text, start)
    if header is None:
        return writer.letters()
    folded = header[1] == ">"
    at = header.end()
    digits = header[2].strip("+-")
    indent = max(parent, 0) + int(digits) if digits else _found_indent(text, at, parent)
    at, waiting = _empty_lines(text, at, indent)
    pending: tuple[int, int] | None = None
    blank_before = False
    while at < len(text) and _column(text, at) == indent and text[at] not in _BREAKS and not _marker(text, at, indent):
        blank = text[at] in " \t"
        if pending is not None:
            if not (folded and _broken(text, pending) == "\n" and not blank_before and not blank):
                writer.put(_broken(text, pending), *pending)
            elif not waiting:
                writer.put(" ", pending[0], at)
        for place in waiting:
            writer.put(_broken(text, place), *place)
        blank_before = blank
        while at < len(text) and text[at] not in _BREAKS:
            writer.put(text[at], at, at + 1)
            at += 1
        if at == len(text):
            pending, waiting = None, []
            break
        pending = (at, _break(text, at))
        at, waiting = _empty_lines(text, pending[1], indent)
    if "-" not in header[2] and pending is not None:
        writer.put(_broken(text, pending), *pending)
    if "+" in header[2]:
        for place in waiting:
            writer.put(_broken(text, place), *place)
    return writer.letters()


def _found_indent(text: str, at: int, parent: int) -> int:
    deepest = 0
    while True:
        begin = at
        while at < len(text) and text[at] == " ":
            at += 1
        deepest = max(deepest, at - begin)
        if at >= len(text) or text[at] not in _BREAKS:
            return max(deepest, parent + 1, 1)
        at = _break(text, at)


def _empty_lines(text: str, at: int, indent: int) -> tuple[int, list[tuple[int, int]]]:
    """Steps over indentation and empty lines; gives where the next line's content begins, and the breaks passed."""
    breaks: list[tuple[int, int]] = []
    while True:
        begin = at
        while at < len(text) and at - begin < indent and text[at] == " ":
            at += 1
        if at >= len(text) or text[at] not in _BREAKS:
            return at, breaks
        breaks.append((at, _break(text, at)))
        at = breaks[-1][1]


def _column(text: str, at: int) -> int:
    begin = at
    while begin > 0 and text[begin - 1] == " ":
        begin -= 1
    return at - begin if begin == 0 or text[begin - 1] in _BREAKS else -1


def _marker(text: str, at: int, indent: int) -> bool:
    return indent == 0 and re.match(r"(?:---|\.\.\.)(?:\s|\Z)", text[at : at + 4]) is not None
