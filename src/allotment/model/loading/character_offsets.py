"""Maps each character of a parsed string to its offsets in the text: through quotes, escapes, folding and indentation.

A finding within an expression thus points at the exact characters in every string style. The rules are those of YAML
1.1 as libyaml applies them; JSON strings are double-quoted strings with surrogate pairs.
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
    """The characters of a scalar. Character ``i`` of ``value`` is at ``starts[i]`` to ``stops[i]`` of the text."""

    value: str
    starts: list[int]
    stops: list[int]

    def span(self, start: int, stop: int) -> tuple[int, int] | None:
        """The text offsets of the characters from ``start`` to ``stop``; None if the value is shorter."""
        if not 0 <= start <= stop <= len(self.value):
            return None
        if start == stop:
            before = self.stops[start - 1] if start else self.starts[0] if self.starts else None
            return None if before is None else (before, before)
        return self.starts[start], self.stops[stop - 1]


class _OffsetBuilder:
    def __init__(self) -> None:
        self.value: list[str] = []
        self.starts: list[int] = []
        self.stops: list[int] = []

    def append(self, character: str, start: int, stop: int) -> None:
        self.value.append(character)
        self.starts.append(start)
        self.stops.append(stop)

    def build(self) -> CharacterOffsets:
        return CharacterOffsets("".join(self.value), self.starts, self.stops)


def character_offsets(text: str, start: int, stop: int, indent: int) -> CharacterOffsets:
    """The characters of the scalar at ``start`` to ``stop`` of a text that the parser has accepted.

    ``indent``: the column of the enclosing block, -1 if there is none; the indentation in a block scalar's header is
    relative to it.
    """
    properties = _PROPERTIES.match(text, start, stop)
    start = properties.end() if properties else start
    opening = text[start : start + 1] if start < stop else ""
    if opening in ("|", ">"):
        return _read_block(text, start, indent)
    builder = _OffsetBuilder()
    if opening == "'":
        _read_single_quoted(builder, text, start + 1, stop - 1)
    elif opening == '"':
        _read_double_quoted(builder, text, start + 1, stop - 1)
    else:
        _read_plain(builder, text, start, stop)
    return builder.build()


# --- flow scalars ----------------------------------------------------------------------------------------------------


def _read_plain(builder: _OffsetBuilder, text: str, at: int, stop: int) -> None:
    while at < stop:
        if text[at] in " \t" or text[at] in _BREAKS:
            at = _read_white_space(builder, text, at, stop)
        else:
            builder.append(text[at], at, at + 1)
            at += 1


def _read_single_quoted(builder: _OffsetBuilder, text: str, at: int, stop: int) -> None:
    while at < stop:
        if text[at] in " \t" or text[at] in _BREAKS:
            at = _read_white_space(builder, text, at, stop)
        else:
            width = 2 if text[at] == "'" else 1
            builder.append(text[at], at, at + width)
            at += width


def _read_double_quoted(builder: _OffsetBuilder, text: str, at: int, stop: int) -> None:
    while at < stop:
        if text[at] in " \t" or text[at] in _BREAKS:
            at = _read_white_space(builder, text, at, stop)
        elif text[at] != "\\":
            builder.append(text[at], at, at + 1)
            at += 1
        elif text[at + 1] in _BREAKS:
            at = _read_white_space(builder, text, _after_break(text, at + 1), stop, escaped=True)
        elif text[at + 1] in _WIDTHS:
            character, end = _decode_code_point(text, at)
            builder.append(character, at, end)
            at = end
        else:
            builder.append(_ESCAPES.get(text[at + 1], text[at + 1]), at, at + 2)
            at += 2


def _decode_code_point(text: str, at: int) -> tuple[str, int]:
    end = at + 2 + _WIDTHS[text[at + 1]]
    code = int(text[at + 2 : end], 16)
    if 0xD800 <= code < 0xDC00 and text[end : end + 2] == "\\u":  # a surrogate pair in JSON
        low = int(text[end + 2 : end + 6], 16)
        if 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), end + 6
    return chr(code), end


def _read_white_space(builder: _OffsetBuilder, text: str, at: int, stop: int, *, escaped: bool = False) -> int:
    """Read white space within a flow scalar, folding line breaks. Returns the offset at which it ends."""
    start = at
    breaks: list[tuple[int, int]] = []
    while at < stop:
        if text[at] in _BREAKS:
            after = _after_break(text, at)
            breaks.append((at, after))
            at = after
        elif text[at] in " \t":
            at += 1
        else:
            break
    if escaped:
        pass  # the previous break is escaped and folds to nothing; only the breaks after it count
    elif not breaks:
        for break_span in range(start, at):
            builder.append(text[break_span], break_span, break_span + 1)
        return at
    elif _break_character(text, breaks[0]) != "\n":  # a paragraph separator is kept
        pass
    elif len(breaks) == 1:
        builder.append(" ", start, at)
        return at
    else:
        breaks = breaks[1:]
    for line_break in breaks:
        builder.append(_break_character(text, line_break), *line_break)
    return at


def _after_break(text: str, at: int) -> int:
    return at + 2 if text[at : at + 2] == "\r\n" else at + 1


def _break_character(text: str, break_span: tuple[int, int]) -> str:
    character = text[break_span[0]]
    return character if character in "\u2028\u2029" else "\n"


# --- block scalars ---------------------------------------------------------------------------------------------------


def _read_block(text: str, start: int, parent: int) -> CharacterOffsets:
    builder = _OffsetBuilder()
    header = _HEADER.match(text, start)
    if header is None:
        return builder.build()
    folded = header[1] == ">"
    at = header.end()
    digits = header[2].strip("+-")
    indent = max(parent, 0) + int(digits) if digits else _detect_indent(text, at, parent)
    at, empty_breaks = _skip_empty_lines(text, at, indent)
    pending: tuple[int, int] | None = None
    blank_before = False
    while (
        at < len(text)
        and _column(text, at) == indent
        and text[at] not in _BREAKS
        and not _is_document_marker(text, at, indent)
    ):
        blank = text[at] in " \t"
        if pending is not None:
            if not (folded and _break_character(text, pending) == "\n" and not blank_before and not blank):
                builder.append(_break_character(text, pending), *pending)
            elif not empty_breaks:
                builder.append(" ", pending[0], at)
        for break_span in empty_breaks:
            builder.append(_break_character(text, break_span), *break_span)
        blank_before = blank
        while at < len(text) and text[at] not in _BREAKS:
            builder.append(text[at], at, at + 1)
            at += 1
        if at == len(text):
            pending, empty_breaks = None, []
            break
        pending = (at, _after_break(text, at))
        at, empty_breaks = _skip_empty_lines(text, pending[1], indent)
    if "-" not in header[2] and pending is not None:
        builder.append(_break_character(text, pending), *pending)
    if "+" in header[2]:
        for break_span in empty_breaks:
            builder.append(_break_character(text, break_span), *break_span)
    return builder.build()


def _detect_indent(text: str, at: int, parent: int) -> int:
    deepest = 0
    while True:
        begin = at
        while at < len(text) and text[at] == " ":
            at += 1
        deepest = max(deepest, at - begin)
        if at >= len(text) or text[at] not in _BREAKS:
            return max(deepest, parent + 1, 1)
        at = _after_break(text, at)


def _skip_empty_lines(text: str, at: int, indent: int) -> tuple[int, list[tuple[int, int]]]:
    """Skip indentation and empty lines. Returns the offset of the next line's content, and the skipped line breaks."""
    breaks: list[tuple[int, int]] = []
    while True:
        begin = at
        while at < len(text) and at - begin < indent and text[at] == " ":
            at += 1
        if at >= len(text) or text[at] not in _BREAKS:
            return at, breaks
        breaks.append((at, _after_break(text, at)))
        at = breaks[-1][1]


def _column(text: str, at: int) -> int:
    begin = at
    while begin > 0 and text[begin - 1] == " ":
        begin -= 1
    return at - begin if begin == 0 or text[begin - 1] in _BREAKS else -1


def _is_document_marker(text: str, at: int, indent: int) -> bool:
    return indent == 0 and re.match(r"(?:---|\.\.\.)(?:\s|\Z)", text[at : at + 4]) is not None
