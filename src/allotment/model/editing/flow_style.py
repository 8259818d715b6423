"""Edits of YAML in flow style and of JSON: members between brackets, on one line or on several."""

from __future__ import annotations

import re
from typing import Any, Final

from allotment.model.editing.edits import EditError, Nest
from allotment.model.editing.formatting import flow_text, json_text, key_text
from allotment.model.editing.source_text import Member, SourceText, Splice, ValueLocation
from allotment.model.loading.marks import join_path

_COMMA: Final = re.compile(r"[ \t]*,")
_TAIL: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?=\r?\n|\Z)")


def replace_value(source: SourceText, location: ValueLocation, value: Any) -> list[Splice]:
    """Replace a value."""
    start, stop = location.span
    text = flow_value(source, value, start)
    return [Splice(start, stop, text) if start < stop else Splice(source.indicator_end(location), stop, f" {text}")]


def flow_value(source: SourceText, value: Any, offset: int) -> str:
    """A value as text within brackets, on the line of ``offset``."""
    return json_text(value, source.style, _margin(source, offset)) if source.json else flow_text(value, source.style)


def flow_field(source: SourceText, key: str, value: Any, offset: int) -> str:
    """A field as text within brackets, on the line of ``offset``."""
    return f"{flow_key(source, key)}{source.style.colon}{flow_value(source, value, offset)}"


def flow_key(source: SourceText, key: str) -> str:
    """A key as text within brackets."""
    return json_text(key, source.style) if source.json else key_text(key, source.style, flow=True)


def remove(source: SourceText, location: ValueLocation, index: int) -> list[Splice]:
    """Remove a member and one comma; comments stay."""
    members = _members(source, location)
    member = members[index]
    if len(members) == 1:
        start, end = source.content_start(location) + 1, location.mark.stop - 1
        return [
            Splice(start, end, _comment_lines(source, start, end, source.style.newline + _margin(source, member.start)))
        ]
    comma = _COMMA.match(source.text, member.stop)
    end = comma.end() if comma else member.stop
    tail = _TAIL.match(source.text, end)
    if source.is_first_on_line(member.start) and tail is not None:
        first, last = source.line_start(member.start), source.next_line(tail.end())
        margin = _margin(source, member.start)
        comments = "".join(
            f"{margin}{source.comment_text(r)}{source.style.newline}" for r in source.comments_in(first, last)
        )
        lines = Splice(first, last, comments)
        before = _COMMA.match(source.text, members[index - 1].stop) if index and not comma else None
        return [Splice(before.end() - 1, before.end(), ""), lines] if before is not None else [lines]
    if index + 1 < len(members):
        after = members[index + 1].start
        line = source.style.newline + _margin(source, after)
        comments = _comment_lines(source, member.start, after, line).removeprefix(line)
        space = " " if comments and source.text[member.start - 1] in "[{" else ""
        return [Splice(member.start, after, space + comments)]
    start = members[index - 1].stop
    return [
        Splice(
            start,
            member.stop,
            _comment_lines(source, start, member.stop, source.style.newline + _margin(source, start)),
        )
    ]


def _comment_lines(source: SourceText, start: int, end: int, line: str) -> str:
    """The comments of a range on separate lines, followed by the start of the next line; empty if there are none.

    ``line``: the line break and indentation that start a line.
    """
    comments = [line + source.comment_text(comment) for comment in source.comments_in(start, end)]
    return "".join([*comments, line] if comments else comments)


def add_member(source: SourceText, location: ValueLocation, key: str | None, value: Any, index: int) -> list[Splice]:
    """Insert a field (or an item, without ``key``) as number ``index`` of a non-empty container."""
    members = _members(source, location)
    newline = source.style.newline
    neighbor = members[max(index - 1, 0)]
    multi_line = "\n" in source.text[location.mark.start : members[0].start]
    text = flow_value(source, value, neighbor.start) if key is None else flow_field(source, key, value, neighbor.start)
    line = newline + _margin(source, neighbor.start)
    if index == 0:
        return [Splice(neighbor.start, neighbor.start, f"{text},{line}" if multi_line else text + source.style.comma)]
    if not multi_line:
        gap = source.text[members[0].stop : members[1].start] if len(members) > 1 else source.style.comma
        separator = gap if gap.strip() == "," and "\n" not in gap else source.style.comma
        return [Splice(neighbor.stop, neighbor.stop, separator + text)]
    comma = _COMMA.match(source.text, neighbor.stop)
    end = comma.end() if comma else neighbor.stop
    tail = _TAIL.match(source.text, end)
    offset = tail.end() if tail else end
    new = f"{line}{text}{',' if comma else ''}"
    return [Splice(offset, offset, new)] if comma else [Splice(end, end, ","), Splice(offset, offset, new)]


def nest(source: SourceText, location: ValueLocation, edit: Nest) -> list[Splice]:
    """Move fields into new brackets after a new key."""
    members = _members(source, location)
    moved = [member for member in members if member.name in edit.keys]
    multi_line = "\n" in source.text[location.mark.start : members[0].start]
    newline = source.style.newline
    unit = source.style.json_indent or " " * source.style.field_indent
    margin = _margin(source, moved[0].start)
    slices = [source.text[member.start : member.stop] for member in moved]
    numbers = [number for number, member in enumerate(members) if member in moved]
    members_text = source.text[moved[0].start : moved[-1].stop]
    if numbers[-1] - numbers[0] + 1 == len(numbers) and source.comments_in(moved[0].start, moved[-1].stop):
        # Comments stay between the same fields.
        nested = members_text.replace("\n", "\n" + unit)
        nested = f"{newline}{margin}{unit}{nested}{newline}{margin}" if multi_line else nested
        text = f"{flow_key(source, edit.under)}{source.style.colon}{{{nested}}}"
        return [Splice(moved[0].start, moved[-1].stop, text)]
    if multi_line:
        deeper = newline + margin + unit
        inner = ",".join(deeper + text.replace("\n", "\n" + unit) for text in slices) + newline + margin
    else:
        inner = source.style.comma.join(slices)
    nested = f"{flow_key(source, edit.under)}{source.style.colon}{{{inner}}}"
    parts: list[str] = []
    done = False
    for number, member in enumerate(members):
        if member in moved:
            if done:
                continue
            done, text = True, nested
        else:
            text = source.text[member.start : member.stop]
        if parts:
            parts.append(source.text[members[number - 1].stop : member.start])
        parts.append(text)
    return [Splice(members[0].start, members[-1].stop, "".join(parts))]


def lift(source: SourceText, location: ValueLocation) -> list[Splice]:
    """Replace a mapping by its fields in the parent mapping."""
    parent, entry = location.parent, location.entry
    assert parent is not None
    assert entry is not None
    inner = _members(source, location)
    if not inner:
        return remove(source, parent, next(i for i, m in enumerate(_members(source, parent)) if m.start == entry.start))
    text = source.text[inner[0].start : inner[-1].stop]
    margin, outer = _margin(source, inner[0].start), _margin(source, entry.start)
    if "\n" in text and margin.startswith(outer):
        text = text.replace("\n" + margin, "\n" + outer)
    return [Splice(entry.start, location.mark.stop, text)]


def _members(source: SourceText, location: ValueLocation) -> list[Member]:
    members = source.members(location)
    if source.text[source.content_start(location)] not in "{[":
        raise EditError(f"{join_path(location.path)} is a mapping without braces")
    return members


def _margin(source: SourceText, offset: int) -> str:
    """The indentation of the line of an offset."""
    line = source.text[source.line_start(offset) : offset]
    return line[: len(line) - len(line.lstrip())]
