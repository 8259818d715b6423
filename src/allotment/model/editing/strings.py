"""Edits within a string. The string keeps its style if that style can represent the new value."""

from __future__ import annotations

from typing import Final

from allotment.model.editing.formatting import (
    double_quoted,
    escaped,
    fits_single_quotes,
    is_plain,
    json_text,
    single_quoted,
)
from allotment.model.editing.source_text import SourceText, Splice, ValueLocation
from allotment.model.loading.character_offsets import CharacterOffsets, character_offsets

#: Maximum length of a line of a folded string after an edit.
_LINE_MAX: Final = 100
_BREAKS: Final = "\n\x85\u2028\u2029"


def replace(source: SourceText, location: ValueLocation, start: int, stop: int, new: str) -> Splice | None:
    """Replace the code points from ``start`` to ``stop`` by ``new``; None if another string style is required."""
    begin, end = location.mark.start, location.mark.stop
    content = min(source.content_start(location), end)
    indent = _indent(source, location)
    read = character_offsets(source.text, begin, end, indent)
    span = read.span(start, stop)
    style = source.text[content : content + 1]
    expected = read.value[:start] + new + read.value[stop:]
    flow = location.parent is not None and not location.parent.mark.block
    # The line break that ends a block scalar is after its end offset; without it the next line would be its text.
    if span is not None and span[1] <= end:
        written = _encoded(source, read, style, new)
        plain = style not in tuple("'\"|>")
        for candidate in () if written is None else (_folded(source, location, span, style, written), written):
            text = source.text[begin : span[0]] + candidate + source.text[span[1] : end]
            after = source.text[:begin] + text + source.text[end:]
            fits = character_offsets(after, begin, begin + len(text), indent).value == expected
            if fits and (not plain or is_plain(expected, flow=flow)):
                return Splice(begin, end, text)
    return _rewritten(source, content, end, style, expected, indent)


def _encoded(source: SourceText, read: CharacterOffsets, style: str, new: str) -> str | None:
    """Characters encoded for a string style, or None if it cannot represent them."""
    if source.json:
        return json_text(new, source.style)[1:-1]
    if style == "'":
        return new.replace("'", "''") if fits_single_quotes(new) else None
    if style == '"':
        return "".join(escaped(letter) for letter in new)
    if style in ("|", ">"):
        column = next(
            (
                source.column(at)
                for number, at in enumerate(read.starts)
                if read.value[number] not in _BREAKS and (number == 0 or read.value[number - 1] == "\n")
            ),
            0,
        )
        if not fits_single_quotes(new.replace("\n", "")):
            return None
        lines = new.split("\n")
        return source.style.newline.join([lines[0], *(" " * column + line for line in lines[1:])])
    return new if fits_single_quotes(new) else None


def _folded(source: SourceText, location: ValueLocation, span: tuple[int, int], style: str, new: str) -> str:
    """Replace a space of ``new`` by a line break if the line of a folded string would become too long."""
    begin, end = location.mark.start, location.mark.stop
    folded = style == ">" or (style != "|" and "\n" in source.text[begin:end])
    start, stop = source.line_start(span[0]), source.line_stop(span[1])
    if source.json or not folded or span[0] - start + len(new) + stop - span[1] <= _LINE_MAX:
        return new
    at = span[0] if span[0] > source.next_line(begin) else end  # the first line may be the key's
    margin = source.text[source.line_start(at) : source.line_stop(at)]
    margin = margin[: len(margin) - len(margin.lstrip(" "))]
    following = source.text[source.next_line(span[1]) : end].lstrip()
    blank = new.rfind(" ")
    if following.startswith(("&&", "||")):  # each line starts with the operator that joins it to the previous line
        blank = max(new.rfind(" &&"), new.rfind(" ||"))
    return new if blank < 0 else f"{new[:blank]}{source.style.newline}{margin}{new[blank + 1 :]}"


def _rewritten(source: SourceText, start: int, stop: int, style: str, expected: str, indent: int) -> Splice | None:
    """The splice that replaces the whole string in its quotes; None for unquoted strings and blocks."""
    if source.json:
        return Splice(start, stop, json_text(expected, source.style))
    if style == "'" and fits_single_quotes(expected):
        return Splice(start, stop, single_quoted(expected))
    if style in ("'", '"'):
        return Splice(start, stop, double_quoted(expected))
    return None


def _indent(source: SourceText, location: ValueLocation) -> int:
    """The column of the block around a string, which the indentation in a block header is relative to."""
    if location.entry is not None:
        return location.entry.column
    return (
        -1
        if location.parent is None
        else source.column(source.indicator_end(location) - 1)
        if location.parent.mark.block
        else 0
    )
