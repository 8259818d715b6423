"""Edits of YAML in block style, line by line: a field is the lines from its key to the end of its value."""

from __future__ import annotations

from typing import Any

from allotment.model.editing.edits import EditError, Nest
from allotment.model.editing.formatting import (
    block_lines,
    flow_text,
    indented,
    is_inline,
    item_lines,
    key_text,
    literal_block,
)
from allotment.model.editing.source_text import Member, SourceText, Splice, ValueLocation
from allotment.model.loading.marks import join_path


def replace_value(source: SourceText, location: ValueLocation, value: Any) -> list[Splice]:
    """Replace a value. Comments within the old value move above it."""
    start, stop = location.span
    after_indicator = source.indicator_end(location)
    if is_inline(value) and "\n" not in source.text[after_indicator:stop]:
        text = flow_text(value, source.style, flow=False)
        return [Splice(start, stop, text) if start < stop else Splice(after_indicator, stop, f" {text}")]
    anchor = (
        location.entry.start
        if location.entry is not None
        else after_indicator - 1
        if location.parent is not None
        else start
    )
    line_stop = source.line_stop(stop)
    margin = " " * source.column(anchor)
    comments = source.comments_in(after_indicator, line_stop)
    text = _value_text(source, location, value, source.column(anchor), anchor)
    after = _relocated_comments(source, line_stop, source.column(anchor), is_inline(value))
    if location.parent is None:
        text = text.lstrip()
    trails = (
        "\n" not in source.text[after_indicator:stop] or (is_inline(value) and not comments[0].own_line)
        if comments
        else False
    )
    if len(comments) == 1 and location.entry is not None and trails:
        first, line, remaining_lines = text.partition(source.style.newline)
        return [
            Splice(
                after_indicator,
                line_stop,
                f"{first}{source.blanks_before(comments[0])}{source.comment_text(comments[0])}{line}{remaining_lines}",
            ),
            *after,
        ]
    if source.is_first_on_line(anchor):
        above = "".join(f"{margin}{source.comment_text(comment)}{source.style.newline}" for comment in comments)
        offset = source.line_start(anchor)
        return [*([Splice(offset, offset, above)] if above else []), Splice(after_indicator, line_stop, text), *after]
    hoisted = "".join(f"{source.style.newline}{margin}{source.comment_text(comment)}" for comment in comments)
    return [Splice(after_indicator, line_stop, text + hoisted), *after]


def _relocated_comments(source: SourceText, line_stop: int, column: int, inline: bool) -> list[Splice]:
    """Move comments and white space below a new block scalar to a column at which they are not part of its text."""
    start = source.next_line(line_stop)
    stop = start if inline else source.trailing_end(line_stop, column)
    comments = [
        f"{' ' * column}{source.comment_text(comment)}{source.style.newline}"
        for comment in source.comments_in(start, stop)
    ]
    return [Splice(start, stop, "".join(comments))] if start < stop else []


def _value_text(source: SourceText, location: ValueLocation, value: Any, column: int, anchor: int) -> str:
    """The text of a value after the colon or dash at ``column``."""
    style = source.style
    if location.entry is None and location.parent is not None:
        gap = _content_offset(source, location, anchor)
        if isinstance(value, str) and (block := literal_block(value, gap)):
            return style.newline.join([f" {block[0]}", *indented(block[1], column + gap)])
        if is_inline(value):
            return f" {flow_text(value, style, flow=False)}"
        first, *remaining_lines = block_lines(value, style)
        return style.newline.join([" " * (gap - 1) + first, *indented(remaining_lines, column + gap)])
    if isinstance(value, str) and (block := literal_block(value, style.field_indent)):
        return style.newline.join([f" {block[0]}", *indented(block[1], column + style.field_indent)])
    if is_inline(value):
        return f" {flow_text(value, style, flow=False)}"
    deeper = 0 if location.parent is None else style.list_indent if isinstance(value, list) else style.field_indent
    return style.newline.join(["", *indented(block_lines(value, style), column + deeper)])


def _content_offset(source: SourceText, location: ValueLocation, dash: int) -> int:
    """The distance in columns from an item's dash to its content."""
    written = source.text[dash + 1 : location.span[0]]
    return len(written) + 1 if written and not written.strip(" ") and location.span[0] < location.span[1] else 2


def remove(source: SourceText, location: ValueLocation, index: int) -> list[Splice]:
    """Remove a field or item; comments stay. Raises ``EditError`` if its line cannot be split."""
    members = source.members(location)
    member = members[index]
    if _is_only_member(source, location, members):
        empty: Any = {} if location.mark.entries is not None else []
        return replace_value(source, location, empty)
    if source.is_first_on_line(member.start):
        column = source.column(member.start)
        start, stop = source.line_start(member.start), source.trailing_end(member.stop, column)
        lines = [
            f"{' ' * column}{source.comment_text(r)}{source.style.newline}" for r in source.comments_in(start, stop)
        ]
        return [Splice(start, stop, "".join(lines))]
    if index + 1 == len(members):
        raise EditError(f"{join_path((*location.path, member.name))} is on the same line as the text before it")
    after = members[index + 1].start
    margin = source.style.newline + " " * source.column(member.start)
    comments = "".join(source.comment_text(comment) + margin for comment in source.comments_in(member.start, after))
    return [Splice(member.start, after, comments)]


def _is_only_member(source: SourceText, location: ValueLocation, members: list[Member]) -> bool:
    """Whether a container has a single member and no merge key."""
    is_only = len(members) == 1 and members[0].stop >= location.mark.stop
    return is_only and "<<" not in source.text[location.mark.start : members[0].start]


def insert(source: SourceText, location: ValueLocation, lines: list[str], index: int) -> list[Splice]:
    """Insert lines as member ``index``: after the previous member, or above the first member and its comments."""
    members = source.members(location)
    if not members:
        raise EditError(f"{join_path(location.path) or 'the document'} has no members in this part of the text")
    newline = source.style.newline
    first = members[0].start
    margin = " " * source.column(first)
    if index:
        offset = source.trailing_end(members[index - 1].stop, source.column(first))
        return [Splice(offset, offset, "".join(margin * bool(line) + line + newline for line in lines))]
    if source.is_first_on_line(first):
        # Comments above a list's first item belong to the item; those above a first field often describe the mapping.
        offset = source.comments_above(first) if location.mark.items is not None else source.line_start(first)
        return [Splice(offset, offset, "".join(margin * bool(line) + line + newline for line in lines))]
    text = newline.join([lines[0], *(margin * bool(line) + line for line in lines[1:])])
    return [Splice(first, first, text + newline + margin)]


def add_field(source: SourceText, location: ValueLocation, key: str, value: Any, index: int) -> list[Splice]:
    """Insert a field as number ``index`` of a mapping."""
    return insert(source, location, block_lines({key: value}, source.style), index)


def insert_item(source: SourceText, location: ValueLocation, value: Any, index: int) -> list[Splice]:
    """Insert an item as number ``index`` of a list."""
    return insert(source, location, item_lines(value, source.style), index)


# --- nesting ---------------------------------------------------------------------------------------------------------


def nest(source: SourceText, location: ValueLocation, edit: Nest) -> list[Splice]:
    """Move fields below a new key, together with the comments directly above and after them."""
    members = source.members(location)
    newline = source.style.newline
    moved = [number for number, member in enumerate(members) if member.name in edit.keys]
    runs: list[tuple[int, int]] = []
    for number in moved:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    ranges = [_run_extent(source, location, members, run) for run in runs]
    column = source.column(members[moved[0]].start)
    margin = " " * column
    begin = ranges[0][0]
    inline = not source.is_first_on_line(members[moved[0]].start)
    lines = [f"{'' if inline else margin}{key_text(edit.under, source.style)}:{newline}"]
    for start, stop in ranges:
        text = source.text[start:stop]
        lines.append(_indented(margin + text if start == begin and inline else text, source.style.field_indent))
    return [Splice(*ranges[0], "".join(lines)), *(Splice(start, stop, "") for start, stop in ranges[1:])]


def _run_extent(
    source: SourceText, location: ValueLocation, members: list[Member], run: tuple[int, int]
) -> tuple[int, int]:
    """Start and end offset of consecutive members and of the comments that belong to them."""
    first, last = members[run[0]], members[run[1] - 1]
    if not source.is_first_on_line(first.start):
        start = first.start
    elif run[0] == 0 and location.parent is None:  # comments at the start of a document describe the document
        start = source.line_start(first.start)
    else:
        start = source.comments_above(first.start)
    ends = run[1] == len(members)
    return start, source.comments_below_end(last.stop, source.column(first.start)) if ends else source.next_line(
        last.stop
    )


def _indented(text: str, width: int) -> str:
    return "".join(" " * width + line if line.strip("\r\n") else line for line in text.splitlines(keepends=True))


def lift(source: SourceText, location: ValueLocation) -> list[Splice]:
    """Replace a mapping by its fields in the parent mapping."""
    parent, entry = location.parent, location.entry
    assert parent is not None
    assert entry is not None
    inner = source.members(location)
    if not inner:
        return remove(source, parent, next(i for i, m in enumerate(source.members(parent)) if m.start == entry.start))
    newline = source.style.newline
    column = source.column(entry.start)
    margin = " " * column
    after_indicator = source.indicator_end(location)
    if location.mark.block:
        body = source.next_line(after_indicator)
        stop = source.trailing_end(inner[-1].stop, column)
        comments = source.comments_in(after_indicator, body)
        text = _outdented(source.text[body:stop], source.column(inner[0].start) - column)
    else:
        stop = source.next_line(location.mark.stop)
        comments = source.comments_in(after_indicator, location.mark.stop)
        trails = "".join(
            source.blanks_before(r) + source.comment_text(r) for r in source.comments_in(location.mark.stop, stop)
        )
        text = newline.join(margin + _field(source, location, str(m.name)) for m in inner) + trails + newline
    text = "".join(f"{margin}{source.comment_text(comment)}{newline}" for comment in comments) + text
    if source.is_first_on_line(entry.start):
        return [Splice(source.line_start(entry.start), stop, text)]
    return [Splice(entry.start, stop, text.lstrip(" "))]


def _field(source: SourceText, location: ValueLocation, name: str) -> str:
    """A field of a flow mapping in block style."""
    entry = (location.mark.entries or {})[name]
    start, stop = entry.value.alias or (entry.value.start, entry.value.stop)
    return f"{source.text[entry.start : entry.stop]}: {source.text[start:stop]}".rstrip(" ")


def _outdented(text: str, width: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line[min(width, len(line) - len(line.lstrip(" "))) :] for line in lines)
