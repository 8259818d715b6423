"""Edits in block style, line by line: a field is the lines from its key to the end of its value."""

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


def put(site: SourceText, spot: ValueLocation, value: Any) -> list[Splice]:
    """Another value in the place of the one at a spot. Comments within the old one go above it."""
    start, stop = spot.place
    head = site.head(spot)
    if is_inline(value) and "\n" not in site.text[head:stop]:
        text = flow_text(value, site.hand, flow=False)
        return [Splice(start, stop, text) if start < stop else Splice(head, stop, f" {text}")]
    anchor = spot.entry.start if spot.entry is not None else head - 1 if spot.around is not None else start
    line_stop = site.line_stop(stop)
    margin = " " * site.column(anchor)
    remarks = site.remarks_in(head, line_stop)
    text = _below(site, spot, value, site.column(anchor), anchor)
    after = _after(site, line_stop, site.column(anchor), is_inline(value))
    if spot.around is None:
        text = text.lstrip()
    behind = "\n" not in site.text[head:stop] or (is_inline(value) and not remarks[0].alone) if remarks else False
    if len(remarks) == 1 and spot.entry is not None and behind:
        first, line, others = text.partition(site.hand.newline)
        return [Splice(head, line_stop, f"{first}{site.gap(remarks[0])}{site.words(remarks[0])}{line}{others}"), *after]
    if site.leads(anchor):
        above = "".join(f"{margin}{site.words(remark)}{site.hand.newline}" for remark in remarks)
        at = site.line_start(anchor)
        return [*([Splice(at, at, above)] if above else []), Splice(head, line_stop, text), *after]
    hoisted = "".join(f"{site.hand.newline}{margin}{site.words(remark)}" for remark in remarks)
    return [Splice(head, line_stop, text + hoisted), *after]


def _after(site: SourceText, line_stop: int, column: int, inline: bool) -> list[Splice]:
    """Comments and blanks below a new block, which would become its text: they go where the block cannot reach."""
    start = site.next_line(line_stop)
    stop = start if inline else site.trail(line_stop, column)
    kept = [f"{' ' * column}{site.words(remark)}{site.hand.newline}" for remark in site.remarks_in(start, stop)]
    return [Splice(start, stop, "".join(kept))] if start < stop else []


def _below(site: SourceText, spot: ValueLocation, value: Any, column: int, anchor: int) -> str:
    """What stands behind a colon or dash at ``column``."""
    hand = site.hand
    if spot.entry is None and spot.around is not None:
        gap = _gap(site, spot, anchor)
        if isinstance(value, str) and (block := literal_block(value, gap)):
            return hand.newline.join([f" {block[0]}", *indented(block[1], column + gap)])
        if is_inline(value):
            return f" {flow_text(value, hand, flow=False)}"
        first, *others = block_lines(value, hand)
        return hand.newline.join([" " * (gap - 1) + first, *indented(others, column + gap)])
    if isinstance(value, str) and (block := literal_block(value, hand.step)):
        return hand.newline.join([f" {block[0]}", *indented(block[1], column + hand.step)])
    if is_inline(value):
        return f" {flow_text(value, hand, flow=False)}"
    deeper = 0 if spot.around is None else hand.dash if isinstance(value, list) else hand.step
    return hand.newline.join(["", *indented(block_lines(value, hand), column + deeper)])


def _gap(site: SourceText, spot: ValueLocation, dash: int) -> int:
    """How far behind its dash an item's content stands."""
    written = site.text[dash + 1 : spot.place[0]]
    return len(written) + 1 if written and not written.strip(" ") and spot.place[0] < spot.place[1] else 2


def remove(site: SourceText, spot: ValueLocation, index: int) -> list[Splice]:
    """Takes out a field or item; comments stay."""
    members = site.members(spot)
    member = members[index]
    if _only(site, spot, members):
        empty: Any = {} if spot.mark.entries is not None else []
        return put(site, spot, empty)
    if site.leads(member.start):
        column = site.column(member.start)
        start, stop = site.line_start(member.start), site.trail(member.stop, column)
        lines = [f"{' ' * column}{site.words(r)}{site.hand.newline}" for r in site.remarks_in(start, stop)]
        return [Splice(start, stop, "".join(lines))]
    if index + 1 == len(members):
        raise EditError(f"{join_path((*spot.path, member.name))} shares its line with what stands before it")
    after = members[index + 1].start
    margin = site.hand.newline + " " * site.column(member.start)
    kept = "".join(site.words(remark) + margin for remark in site.remarks_in(member.start, after))
    return [Splice(member.start, after, kept)]


def _only(site: SourceText, spot: ValueLocation, members: list[Member]) -> bool:
    """Whether a container has one member, and no merge beside it."""
    alone = len(members) == 1 and members[0].stop >= spot.mark.stop
    return alone and "<<" not in site.text[spot.mark.start : members[0].start]


def insert(site: SourceText, spot: ValueLocation, lines: list[str], index: int) -> list[Splice]:
    """New lines as member number ``index``: behind the one before, or above the first and its comments."""
    members = site.members(spot)
    if not members:
        raise EditError(f"{join_path(spot.path) or 'the document'} has nothing that is written in this place")
    newline = site.hand.newline
    first = members[0].start
    margin = " " * site.column(first)
    if index:
        at = site.trail(members[index - 1].stop, site.column(first))
        return [Splice(at, at, "".join(margin * bool(line) + line + newline for line in lines))]
    if site.leads(first):
        # Comments above a list's first item are its; those above the first field often speak of the whole.
        at = site.top(first) if spot.mark.items is not None else site.line_start(first)
        return [Splice(at, at, "".join(margin * bool(line) + line + newline for line in lines))]
    text = newline.join([lines[0], *(margin * bool(line) + line for line in lines[1:])])
    return [Splice(first, first, text + newline + margin)]


def add_field(site: SourceText, spot: ValueLocation, key: str, value: Any, index: int) -> list[Splice]:
    """A new field as number ``index`` of a mapping."""
    return insert(site, spot, block_lines({key: value}, site.hand), index)


def insert_item(site: SourceText, spot: ValueLocation, value: Any, index: int) -> list[Splice]:
    """A new item as number ``index`` of a list."""
    return insert(site, spot, item_lines(value, site.hand), index)


# --- deeper and higher -----------------------------------------------------------------------------------------------


def nest(site: SourceText, spot: ValueLocation, edit: Nest) -> list[Splice]:
    """Fields go one step deeper, below a new key, with the comments directly above them and behind them."""
    members = site.members(spot)
    newline = site.hand.newline
    moved = [number for number, member in enumerate(members) if member.name in edit.keys]
    runs: list[tuple[int, int]] = []
    for number in moved:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    ranges = [_range(site, spot, members, run) for run in runs]
    column = site.column(members[moved[0]].start)
    margin = " " * column
    begin = ranges[0][0]
    inline = not site.leads(members[moved[0]].start)
    lines = [f"{'' if inline else margin}{key_text(edit.under, site.hand)}:{newline}"]
    for start, stop in ranges:
        text = site.text[start:stop]
        lines.append(_shifted(margin + text if start == begin and inline else text, site.hand.step))
    return [Splice(*ranges[0], "".join(lines)), *(Splice(start, stop, "") for start, stop in ranges[1:])]


def _range(site: SourceText, spot: ValueLocation, members: list[Member], run: tuple[int, int]) -> tuple[int, int]:
    """The lines of members that follow each other, with the comments that belong to them."""
    first, last = members[run[0]], members[run[1] - 1]
    if not site.leads(first.start):
        start = first.start
    elif run[0] == 0 and spot.around is None:  # comments at the head of a document speak of it
        start = site.line_start(first.start)
    else:
        start = site.top(first.start)
    ends = run[1] == len(members)
    return start, site.bottom(last.stop, site.column(first.start)) if ends else site.next_line(last.stop)


def _shifted(text: str, by: int) -> str:
    return "".join(" " * by + line if line.strip("\r\n") else line for line in text.splitlines(keepends=True))


def lift(site: SourceText, spot: ValueLocation) -> list[Splice]:
    """A mapping's fields take its place in the mapping around it."""
    around, entry = spot.around, spot.entry
    assert around is not None
    assert entry is not None
    inner = site.members(spot)
    if not inner:
        return remove(site, around, next(i for i, m in enumerate(site.members(around)) if m.start == entry.start))
    newline = site.hand.newline
    column = site.column(entry.start)
    margin = " " * column
    head = site.head(spot)
    if spot.mark.block:
        body = site.next_line(head)
        stop = site.trail(inner[-1].stop, column)
        remarks = site.remarks_in(head, body)
        text = _pulled(site.text[body:stop], site.column(inner[0].start) - column)
    else:
        stop = site.next_line(spot.mark.stop)
        remarks = site.remarks_in(head, spot.mark.stop)
        behind = "".join(site.gap(r) + site.words(r) for r in site.remarks_in(spot.mark.stop, stop))
        text = newline.join(margin + _field(site, spot, str(m.name)) for m in inner) + behind + newline
    text = "".join(f"{margin}{site.words(remark)}{newline}" for remark in remarks) + text
    if site.leads(entry.start):
        return [Splice(site.line_start(entry.start), stop, text)]
    return [Splice(entry.start, stop, text.lstrip(" "))]


def _field(site: SourceText, spot: ValueLocation, name: str) -> str:
    """A field of a flow mapping as block style writes it."""
    entry = (spot.mark.entries or {})[name]
    start, stop = entry.value.alias or (entry.value.start, entry.value.stop)
    return f"{site.text[entry.start : entry.stop]}: {site.text[start:stop]}".rstrip(" ")


def _pulled(text: str, by: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line[min(by, len(line) - len(line.lstrip(" "))) :] for line in lines)
