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


def _read_plain(builder: _OffsetBuilder, text: str, offset: int, stop: int) -> None:
    while offset < stop:
        if text[offset] in " \t" or text[offset] in _BREAKS:
            offset = _read_white_space(builder, text, offset, stop)
        else:
            builder.append(text[offset], offset, offset + 1)
            offset += 1


def _read_single_quoted(builder: _OffsetBuilder, text: str, offset: int, stop: int) -> None:
    while offset < stop:
        if text[offset] in " \t" or text[offset] in _BREAKS:
            offset = _read_white_space(builder, text, offset, stop)
        else:
            width = 2 if text[offset] == "'" else 1
            builder.append(text[offset], offset, offset + width)
            offset += width


def _read_double_quoted(builder: _OffsetBuilder, text: str, offset: int, stop: int) -> None:
    while offset < stop:
        if text[offset] in " \t" or text[offset] in _BREAKS:
            offset = _read_white_space(builder, text, offset, stop)
        elif text[offset] != "\\":
            builder.append(text[offset], offset, offset + 1)
            offset += 1
        elif text[offset + 1] in _BREAKS:
            offset = _read_white_space(builder, text, _after_break(text, offset + 1), stop, escaped=True)
        elif text[offset + 1] in _WIDTHS:
            character, end = _decode_code_point(text, offset)
            builder.append(character, offset, end)
            offset = end
        else:
            builder.append(_ESCAPES.get(text[offset + 1], text[offset + 1]), offset, offset + 2)
            offset += 2


def _decode_code_point(text: str, offset: int) -> tuple[str, int]:
    end = offset + 2 + _WIDTHS[text[offset + 1]]
    code = int(text[offset + 2 : end], 16)
    if 0xD800 <= code < 0xDC00 and text[end : end + 2] == "\\u":  # a surrogate pair in JSON
        low = int(text[end + 2 : end + 6], 16)
        if 0xDC00 <= low < 0xE000:
            return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), end + 6
    return chr(code), end


def _read_white_space(builder: _OffsetBuilder, text: str, offset: int, stop: int, *, escaped: bool = False) -> int:
    """Read white space within a flow scalar, folding line breaks. Returns the offset at which it ends."""
    start = offset
    breaks: list[tuple[int, int]] = []
    while offset < stop:
        if text[offset] in _BREAKS:
            after = _after_break(text, offset)
            breaks.append((offset, after))
            offset = after
        elif text[offset] in " \t":
            offset += 1
        else:
            break
    if escaped:
        pass  # the previous break is escaped and folds to nothing; only the breaks after it count
    elif not breaks:
        for break_span in range(start, offset):
            builder.append(text[break_span], break_span, break_span + 1)
        return offset
    elif _break_character(text, breaks[0]) != "\n":  # a paragraph separator is kept
        pass
    elif len(breaks) == 1:
        builder.append(" ", start, offset)
        return offset
    else:
        breaks = breaks[1:]
    for line_break in breaks:
        builder.append(_break_character(text, line_break), *line_break)
    return offset


def _after_break(text: str, offset: int) -> int:
    return offset + 2 if text[offset : offset + 2] == "\r\n" else offset + 1


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
    offset = header.end()
    digits = header[2].strip("+-")
    indent = max(parent, 0) + int(digits) if digits else _detect_indent(text, offset, parent)
    offset, empty_breaks = _skip_empty_lines(text, offset, indent)
    pending: tuple[int, int] | None = None
    blank_before = False
    while (
        offset < len(text)
        and _column(text, offset) == indent
        and text[offset] not in _BREAKS
        and not _is_document_marker(text, offset, indent)
    ):
        blank = text[offset] in " \t"
        if pending is not None:
            if not (folded and _break_character(text, pending) == "\n" and not blank_before and not blank):
                builder.append(_break_character(text, pending), *pending)
            elif not empty_breaks:
                builder.append(" ", pending[0], offset)
        for break_span in empty_breaks:
            builder.append(_break_character(text, break_span), *break_span)
        blank_before = blank
        while offset < len(text) and text[offset] not in _BREAKS:
            builder.append(text[offset], offset, offset + 1)
            offset += 1
        if offset == len(text):
            pending, empty_breaks = None, []
            break
        pending = (offset, _after_break(text, offset))
        offset, empty_breaks = _skip_empty_lines(text, pending[1], indent)
    if "-" not in header[2] and pending is not None:
        builder.append(_break_character(text, pending), *pending)
    if "+" in header[2]:
        for break_span in empty_breaks:
            builder.append(_break_character(text, break_span), *break_span)
    return builder.build()


def _detect_indent(text: str, offset: int, parent: int) -> int:
    deepest = 0
    while True:
        start = offset
        while offset < len(text) and text[offset] == " ":
            offset += 1
        deepest = max(deepest, offset - start)
        if offset >= len(text) or text[offset] not in _BREAKS:
            return max(deepest, parent + 1, 1)
        offset = _after_break(text, offset)


def _skip_empty_lines(text: str, offset: int, indent: int) -> tuple[int, list[tuple[int, int]]]:
    """Skip indentation and empty lines. Returns the offset of the next line's content, and the skipped line breaks."""
    breaks: list[tuple[int, int]] = []
    while True:
        start = offset
        while offset < len(text) and offset - start < indent and text[offset] == " ":
            offset += 1
        if offset >= len(text) or text[offset] not in _BREAKS:
            return offset, breaks
        breaks.append((offset, _after_break(text, offset)))
        offset = breaks[-1][1]


def _column(text: str, offset: int) -> int:
    start = offset
    while start > 0 and text[start - 1] == " ":
        start -= 1
    return offset - start if start == 0 or text[start - 1] in _BREAKS else -1


def _is_document_marker(text: str, offset: int, indent: int) -> bool:
    return indent == 0 and re.match(r"(?:---|\.\.\.)(?:\s|\Z)", text[offset : offset + 4]) is not None
