"""Changes within a string, which stays in the style that it is written in as long as that can hold it."""

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

#: Of a string that is folded over lines, a line is not made longer than this.
_LONGEST: Final = 100
_BREAKS: Final = "\n\x85\u2028\u2029"


def replace(site: SourceText, spot: ValueLocation, start: int, stop: int, new: str) -> Splice | None:
    """The code points from ``start`` to ``stop`` become ``new``; None when the string must be written anew."""
    begin, end = spot.mark.start, spot.mark.stop
    content = min(site.content(spot), end)
    indent = _indent(site, spot)
    read = character_offsets(site.text, begin, end, indent)
    place = read.span(start, stop)
    style = site.text[content : content + 1]
    wanted = read.value[:start] + new + read.value[stop:]
    flow = spot.around is not None and not spot.around.mark.block
    # The line break that ends a block stands behind what counts as its end; without it the next line would be text.
    if place is not None and place[1] <= end:
        written = _written(site, read, style, new)
        plain = style not in tuple("'\"|>")
        for one in () if written is None else (_broken(site, spot, place, style, written), written):
            text = site.text[begin : place[0]] + one + site.text[place[1] : end]
            after = site.text[:begin] + text + site.text[end:]
            fits = character_offsets(after, begin, begin + len(text), indent).value == wanted
            if fits and (not plain or is_plain(wanted, flow=flow)):
                return Splice(begin, end, text)
    return _anew(site, content, end, style, wanted, indent)


def _written(site: SourceText, read: CharacterOffsets, style: str, new: str) -> str | None:
    """Some characters as a style writes them."""
    if site.json:
        return json_text(new, site.hand)[1:-1]
    if style == "'":
        return new.replace("'", "''") if fits_single_quotes(new) else None
    if style == '"':
        return "".join(escaped(letter) for letter in new)
    if style in ("|", ">"):
        column = next(
            (
                site.column(at)
                for number, at in enumerate(read.starts)
                if read.value[number] not in _BREAKS and (number == 0 or read.value[number - 1] == "\n")
            ),
            0,
        )
        if not fits_single_quotes(new.replace("\n", "")):
            return None
        lines = new.split("\n")
        return site.hand.newline.join([lines[0], *(" " * column + line for line in lines[1:])])
    return new if fits_single_quotes(new) else None


def _broken(site: SourceText, spot: ValueLocation, place: tuple[int, int], style: str, new: str) -> str:
    """New characters with a line break in the place of a blank, where a folded string's line would become too long."""
    begin, end = spot.mark.start, spot.mark.stop
    folded = style == ">" or (style != "|" and "\n" in site.text[begin:end])
    start, stop = site.line_start(place[0]), site.line_stop(place[1])
    if site.json or not folded or place[0] - start + len(new) + stop - place[1] <= _LONGEST:
        return new
    at = place[0] if place[0] > site.next_line(begin) else end  # the first line may be that of the key
    margin = site.text[site.line_start(at) : site.line_stop(at)]
    margin = margin[: len(margin) - len(margin.lstrip(" "))]
    below = site.text[site.next_line(place[1]) : end].lstrip()
    blank = new.rfind(" ")
    if below.startswith(("&&", "||")):  # each line begins with what joins it to the one above
        blank = max(new.rfind(" &&"), new.rfind(" ||"))
    return new if blank < 0 else f"{new[:blank]}{site.hand.newline}{margin}{new[blank + 1 :]}"


def _anew(site: SourceText, start: int, stop: int, style: str, wanted: str, indent: int) -> Splice | None:
    """The whole string, written anew in its style."""
    if site.json:
        return Splice(start, stop, json_text(wanted, site.hand))
    if style == "'" and fits_single_quotes(wanted):
        return Splice(start, stop, single_quoted(wanted))
    if style in ("'", '"'):
        return Splice(start, stop, double_quoted(wanted))
    return None


def _indent(site: SourceText, spot: ValueLocation) -> int:
    """The column of the block around a string, from which indentation given in its header counts."""
    if spot.entry is not None:
        return spot.entry.column
    return -1 if spot.around is None else site.column(site.head(spot) - 1) if spot.around.mark.block else 0
