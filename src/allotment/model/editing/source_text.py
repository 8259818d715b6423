"""A text that is being changed: where its values and comments stand, and in what hand it is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from allotment.model.editing.edits import EditError
from allotment.model.editing.formatting import TextStyle, is_plain
from allotment.model.loading.comments import find_comments
from allotment.model.loading.marks import EntryMark, Path, ValueMark, join_path

_BLANKS: Final = re.compile(r"(?:[ \t]+\r?\n)*")
_BLOCK: Final = re.compile(r"(?:[&!]\S*\s+)*[|>][0-9]?(?![-+])")
_FILLING: Final = re.compile(r"(?:\s|#[^\n]*)*")
#: So many strings, all in quotes, are so on purpose.
_MANY: Final = 3
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*(?:\s|#[^\n]*\n)+)*")


class Splice(NamedTuple):
    """The text from ``start`` to ``stop`` is replaced."""

    start: int
    stop: int
    text: str


class CommentSpan(NamedTuple):
    """A comment from its ``#`` to the end of its line; ``alone`` when nothing else stands there."""

    start: int
    stop: int
    alone: bool


class ValueLocation(NamedTuple):
    """A value in the text: its mark, its key if it has one, and the mapping or list around it."""

    path: Path
    mark: ValueMark
    entry: EntryMark | None = None
    around: ValueLocation | None = None

    @property
    def place(self) -> tuple[int, int]:
        """From where to where it is written; of an alias, the alias."""
        return self.mark.alias or (self.mark.start, self.mark.stop)


class Member(NamedTuple):
    """A field or item of a mapping or list: from its key or dash (in block style) to its end."""

    start: int
    stop: int
    name: str | int


class SourceText(NamedTuple):
    """One document's text, or the part of a file that is read with it."""

    text: str
    root: ValueMark
    json: bool
    hand: TextStyle
    remarks: tuple[CommentSpan, ...]

    # --- lines -------------------------------------------------------------------------------------------------------

    def line_start(self, at: int) -> int:
        """Where the line of an offset begins."""
        return self.text.rfind("\n", 0, at) + 1

    def line_stop(self, at: int) -> int:
        """Where the line of an offset ends, before its line break."""
        end = self.text.find("\n", at)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > at and self.text[end - 1] == "\r" else end

    def next_line(self, at: int) -> int:
        """Where the line below begins."""
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end + 1

    def column(self, at: int) -> int:
        """The column of an offset, from 0."""
        return at - self.line_start(at)

    def leads(self, at: int) -> bool:
        """Whether nothing but blanks stands before an offset on its line."""
        return not self.text[self.line_start(at) : at].strip()

    def remarks_in(self, start: int, stop: int) -> list[CommentSpan]:
        """The comments that begin within a range."""
        return [remark for remark in self.remarks if start <= remark.start < stop]

    def words(self, remark: CommentSpan) -> str:
        """A comment as it is written."""
        return self.text[remark.start : remark.stop]

    def gap(self, remark: CommentSpan) -> str:
        """The blanks before a comment."""
        before = self.text[self.line_start(remark.start) : remark.start]
        return before[len(before.rstrip()) :]

    def top(self, at: int) -> int:
        """The beginning of the comment lines directly above the line of an offset, or of that line."""
        start = self.line_start(at)
        for remark in reversed(self.remarks):
            if remark.alone and self.next_line(remark.start) == start:
                start = self.line_start(remark.start)
        return start

    def bottom(self, at: int, column: int) -> int:
        """The end of the comment lines directly below the line of an offset that are indented by ``column`` or more."""
        end = self.next_line(at)
        for remark in self.remarks:
            if remark.alone and self.line_start(remark.start) == end and self.column(remark.start) >= column:
                end = self.next_line(remark.start)
        return end

    def blanks(self, at: int) -> int:
        """The end of the lines from ``at`` on that hold blanks and nothing else."""
        match = _BLANKS.match(self.text, at)
        return match.end() if match else at

    def trail(self, at: int, column: int) -> int:
        """The end of the last comment line that is indented deeper than ``column``, up to the next thing written.

        Lines of nothing but blanks count, too: below a block they would become its text.
        """
        end = self.blanks(self.next_line(at))
        written = self.filled(end)
        for remark in self.remarks_in(end, written):
            if self.column(remark.start) > column:
                end = self.next_line(remark.start)
        return end

    # --- values ------------------------------------------------------------------------------------------------------

    def find(self, path: Path) -> ValueLocation:
        """The value at a path. Raises ``EditError`` when it is not written there."""
        spot = ValueLocation((), self.root)
        for depth, step in enumerate(path):
            mark = spot.mark
            if mark.alias is not None:
                alias = self.text[slice(*mark.alias)]
                raise EditError(f"{join_path(spot.path)} is written elsewhere: it is an alias ({alias})")
            here = path[: depth + 1]
            if mark.entries is not None and str(step) in mark.entries:
                entry = mark.entries[str(step)]
                spot = ValueLocation(here, entry.value, entry, spot)
            elif mark.items is not None and isinstance(step, int) and 0 <= step < len(mark.items):
                spot = ValueLocation(here, mark.items[step], None, spot)
            else:
                raise EditError(f"{join_path(here)} is not written in this place")
        return spot

    def head(self, spot: ValueLocation) -> int:
        """Behind the colon or dash before a value; where it begins, if there is neither."""
        if spot.entry is not None:
            colon = self.filled(spot.entry.stop)
            if self.text[colon : colon + 1] != ":":
                raise EditError(f"{join_path(spot.path)} is a key without a value")
            return colon + 1
        if spot.around is not None and spot.around.mark.block:
            return self.members(spot.around)[int(spot.path[-1])].start + 1
        return spot.place[0]

    def filled(self, at: int) -> int:
        """The next offset at which there is neither white space nor a comment."""
        match = _FILLING.match(self.text, at)
        return match.end() if match else at

    def content(self, spot: ValueLocation) -> int:
        """Where a value begins behind its anchor and tag."""
        match = _PROPERTIES.match(self.text, spot.mark.start)
        return match.end() if match else spot.mark.start

    def members(self, spot: ValueLocation) -> list[Member]:
        """The fields or items of a mapping or list."""
        mark = spot.mark
        if mark.alias is not None:
            raise EditError(f"{join_path(spot.path)} is written elsewhere: it is an alias")
        if mark.entries is not None:
            return [
                Member(entry.start, max(entry.stop, _stop(entry.value)), name) for name, entry in mark.entries.items()
            ]
        found: list[Member] = []
        at = self.content(spot)
        for number, item in enumerate(mark.items or ()):
            if mark.block:
                dash = self.filled(at)
                if self.text[dash : dash + 1] != "-":
                    raise EditError(f"{join_path(spot.path)} is a list whose items cannot be told apart")
                at = max(dash + 1, _stop(item))
                found.append(Member(dash, at, number))
            else:
                start, stop = item.alias or (item.start, item.stop)
                found.append(Member(start, stop, number))
        return found


def _stop(mark: ValueMark) -> int:
    return mark.alias[1] if mark.alias is not None else mark.stop


def source_text(text: str, root: ValueMark, *, json: bool) -> SourceText:
    """A text with its comments, and the hand that it is written in."""
    return SourceText(text, root, json, _hand(text, root, json), () if json else tuple(_remarks(text)))


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """The text after all splices, which do not overlap; those of one place are done in the order given."""
    parts: list[str] = []
    at = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.stop)):
        if splice.start < at:
            raise EditError("the change reaches over itself")
        parts += (text[at : splice.start], splice.text)
        at = splice.stop
    return "".join((*parts, text[at:]))


def with_stripped_block(text: str, root: ValueMark) -> str:
    """A text whose last value, if it is a block, says that no line break ends it."""
    last = root
    while (inner := [entry.value for entry in (last.entries or {}).values()] or last.items or []) and last.block:
        last = inner[-1]
    header = _BLOCK.match(text, last.start)
    return text if header is None else text[: header.end()] + "-" + text[header.end() :]


def _remarks(text: str) -> Iterator[CommentSpan]:
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for comment in find_comments(text).comments:
        start = starts[comment.line - 1] + comment.column - 1
        stop = starts[comment.line - 1] + len(lines[comment.line - 1].rstrip())
        yield CommentSpan(start, stop, comment.own_line)


# --- the hand --------------------------------------------------------------------------------------------------------


def _hand(text: str, root: ValueMark, json: bool) -> TextStyle:
    newline = "\r\n" if "\r\n" in text else "\n"
    if json:
        return _json_hand(text, root)._replace(newline=newline)
    steps: Counter[int] = Counter()
    dashes: Counter[int] = Counter()
    quotes: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    _watch(text, root, -1, steps, dashes, quotes, keys)
    step = steps.most_common(1)[0][0] if steps else 2
    dash = dashes.most_common(1)[0][0] if dashes else 0
    key_quote = keys.most_common(1)[0][0] if keys else ""
    quote = "'" if quotes["'"] > quotes['"'] else '"'
    return TextStyle(step, dash, quote, newline, key_quote=key_quote, bare=bool(quotes[""]) or quotes.total() < _MANY)


def _watch(
    text: str,
    mark: ValueMark,
    column: int,
    steps: Counter[int],
    dashes: Counter[int],
    quotes: Counter[str],
    keys: Counter[str],
) -> None:
    """Counts how deep the fields and lists below their keys stand, and which quotes are used, of keys by themselves."""
    if mark.alias is not None:
        return
    if mark.entries is not None:
        for entry in mark.entries.values():
            value = entry.value
            keys[text[entry.start] if text[entry.start] in "'\"" else ""] += 1
            if mark.block and value.block and value.line > entry.line and value.alias is None:
                (steps if value.entries is not None else dashes)[value.column - entry.column] += 1
            _watch(text, value, entry.column, steps, dashes, quotes, keys)
    elif mark.items is not None:
        for item in mark.items:
            _watch(text, item, column, steps, dashes, quotes, keys)
    elif text[mark.start : mark.start + 1] in ("'", '"'):
        quotes[text[mark.start]] += 1
    elif is_plain(text[mark.start : mark.stop]):
        quotes[""] += 1


def _json_hand(text: str, root: ValueMark) -> TextStyle:
    members = [(entry.start, entry) for entry in (root.entries or {}).values()]
    if not members:
        return TextStyle()
    first, entry = members[0]
    before = text[root.start + 1 : first]
    colon = text[entry.stop : entry.value.start] or ": "
    comma = ", "
    if len(members) > 1:
        comma = text[entry.value.stop : members[1][0]]
    pretty = before[before.rfind("\n") + 1 :] if "\n" in before else None
    if pretty is not None:
        margin = len(text[text.rfind("\n", 0, root.start) + 1 : root.start])
        pretty = pretty[margin:] if pretty[:margin].isspace() or not margin else pretty
    return TextStyle(
        pretty=pretty or ("  " if pretty is not None else None), comma="," if comma == "," else ", ", colon=colon
    )
