"""Edits in flow style and in JSON: members between brackets, separated by commas, on one line or on many."""

from __future__ import annotations

import re
from typing import Any, Final

from allotment.model.editing.edits import EditError, Nest
from allotment.model.editing.formatting import flow_text, json_text, key_text
from allotment.model.editing.source_text import Member, SourceText, Splice, ValueLocation
from allotment.model.loading.marks import join_path

_COMMA: Final = re.compile(r"[ \t]*,")
_TAIL: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?(?=\r?\n|\Z)")


def put(site: SourceText, spot: ValueLocation, value: Any) -> list[Splice]:
    """Another value in the place of the one at a spot."""
    start, stop = spot.place
    text = value_text(site, value, start)
    return [Splice(start, stop, text) if start < stop else Splice(site.head(spot), stop, f" {text}")]


def value_text(site: SourceText, value: Any, at: int) -> str:
    """A value as it is written within brackets, in the line of an offset."""
    return json_text(value, site.hand, _margin(site, at)) if site.json else flow_text(value, site.hand)


def field_text(site: SourceText, key: str, value: Any, at: int) -> str:
    """A field as it is written within brackets, in the line of an offset."""
    return f"{name_text(site, key)}{site.hand.colon}{value_text(site, value, at)}"


def name_text(site: SourceText, key: str) -> str:
    """A key as it is written within brackets."""
    return json_text(key, site.hand) if site.json else key_text(key, site.hand, flow=True)


def remove(site: SourceText, spot: ValueLocation, index: int) -> list[Splice]:
    """Takes out a member and one comma; comments stay."""
    members = _members(site, spot)
    member = members[index]
    if len(members) == 1:
        begin, end = site.content(spot) + 1, spot.mark.stop - 1
        return [Splice(begin, end, _lines(site, begin, end, site.hand.newline + _margin(site, member.start)))]
    comma = _COMMA.match(site.text, member.stop)
    end = comma.end() if comma else member.stop
    tail = _TAIL.match(site.text, end)
    if site.leads(member.start) and tail is not None:
        first, last = site.line_start(member.start), site.next_line(tail.end())
        margin = _margin(site, member.start)
        kept = "".join(f"{margin}{site.words(r)}{site.hand.newline}" for r in site.remarks_in(first, last))
        lines = Splice(first, last, kept)
        before = _COMMA.match(site.text, members[index - 1].stop) if index and not comma else None
        return [Splice(before.end() - 1, before.end(), ""), lines] if before is not None else [lines]
    if index + 1 < len(members):
        after = members[index + 1].start
        line = site.hand.newline + _margin(site, after)
        kept = _lines(site, member.start, after, line).removeprefix(line)
        space = " " if kept and site.text[member.start - 1] in "[{" else ""
        return [Splice(member.start, after, space + kept)]
    begin = members[index - 1].stop
    return [Splice(begin, member.stop, _lines(site, begin, member.stop, site.hand.newline + _margin(site, begin)))]


def _lines(site: SourceText, begin: int, end: int, line: str) -> str:
    """The comments of a range on lines of their own, and the beginning of the next one; nothing where there are none.

    ``line`` is what begins one: the break before it and its indentation.
    """
    kept = [line + site.words(remark) for remark in site.remarks_in(begin, end)]
    return "".join([*kept, line] if kept else kept)


def add(site: SourceText, spot: ValueLocation, key: str | None, value: Any, index: int) -> list[Splice]:
    """A new field (or item, without a key) as number ``index`` of a container that is not empty."""
    members = _members(site, spot)
    newline = site.hand.newline
    beside = members[max(index - 1, 0)]
    many = "\n" in site.text[spot.mark.start : members[0].start]
    text = value_text(site, value, beside.start) if key is None else field_text(site, key, value, beside.start)
    line = newline + _margin(site, beside.start)
    if index == 0:
        return [Splice(beside.start, beside.start, f"{text},{line}" if many else text + site.hand.comma)]
    if not many:
        gap = site.text[members[0].stop : members[1].start] if len(members) > 1 else site.hand.comma
        separator = gap if gap.strip() == "," and "\n" not in gap else site.hand.comma
        return [Splice(beside.stop, beside.stop, separator + text)]
    comma = _COMMA.match(site.text, beside.stop)
    end = comma.end() if comma else beside.stop
    tail = _TAIL.match(site.text, end)
    at = tail.end() if tail else end
    new = f"{line}{text}{',' if comma else ''}"
    return [Splice(at, at, new)] if comma else [Splice(end, end, ","), Splice(at, at, new)]


def nest(site: SourceText, spot: ValueLocation, edit: Nest) -> list[Splice]:
    """Fields go between brackets of their own, behind a new key."""
    members = _members(site, spot)
    moved = [member for member in members if member.name in edit.keys]
    many = "\n" in site.text[spot.mark.start : members[0].start]
    newline = site.hand.newline
    unit = site.hand.pretty or " " * site.hand.step
    margin = _margin(site, moved[0].start)
    slices = [site.text[member.start : member.stop] for member in moved]
    numbers = [number for number, member in enumerate(members) if member in moved]
    whole = site.text[moved[0].start : moved[-1].stop]
    if numbers[-1] - numbers[0] + 1 == len(numbers) and site.remarks_in(moved[0].start, moved[-1].stop):
        # Comments stay between the fields that they stand between.
        nested = whole.replace("\n", "\n" + unit)
        nested = f"{newline}{margin}{unit}{nested}{newline}{margin}" if many else nested
        text = f"{name_text(site, edit.under)}{site.hand.colon}{{{nested}}}"
        return [Splice(moved[0].start, moved[-1].stop, text)]
    if many:
        deeper = newline + margin + unit
        inner = ",".join(deeper + text.replace("\n", "\n" + unit) for text in slices) + newline + margin
    else:
        inner = site.hand.comma.join(slices)
    nested = f"{name_text(site, edit.under)}{site.hand.colon}{{{inner}}}"
    parts: list[str] = []
    done = False
    for number, member in enumerate(members):
        if member in moved:
            if done:
                continue
            done, text = True, nested
        else:
            text = site.text[member.start : member.stop]
        if parts:
            parts.append(site.text[members[number - 1].stop : member.start])
        parts.append(text)
    return [Splice(members[0].start, members[-1].stop, "".join(parts))]


def lift(site: SourceText, spot: ValueLocation) -> list[Splice]:
    """The fields between a mapping's brackets take its place."""
    around, entry = spot.around, spot.entry
    assert around is not None
    assert entry is not None
    inner = _members(site, spot)
    if not inner:
        return remove(site, around, next(i for i, m in enumerate(_members(site, around)) if m.start == entry.start))
    text = site.text[inner[0].start : inner[-1].stop]
    margin, outer = _margin(site, inner[0].start), _margin(site, entry.start)
    if "\n" in text and margin.startswith(outer):
        text = text.replace("\n" + margin, "\n" + outer)
    return [Splice(entry.start, spot.mark.stop, text)]


def _members(site: SourceText, spot: ValueLocation) -> list[Member]:
    members = site.members(spot)
    if site.text[site.content(spot)] not in "{[":
        raise EditError(f"{join_path(spot.path)} is a mapping without brackets of its own")
    return members


def _margin(site: SourceText, at: int) -> str:
    """The blanks at the beginning of the line of an offset."""
    line = site.text[site.line_start(at) : at]
    return line[: len(line) - len(line.lstrip())]
