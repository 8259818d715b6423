"""The text of a manifest that is being edited: positions of its values and comments, and its formatting style."""

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
#: In a text with at least this many strings, all of them quoted, new strings are quoted too.
_QUOTED_STYLE_MIN: Final = 3
_PROPERTIES: Final = re.compile(r"(?:[&!]\S*(?:\s|#[^\n]*\n)+)*")


class Splice(NamedTuple):
    """A replacement of the text from ``start`` to ``stop`` by ``text``."""

    start: int
    stop: int
    text: str


class CommentSpan(NamedTuple):
    """A comment from its ``#`` to the end of its line. ``own_line``: nothing else is on the line."""

    start: int
    stop: int
    own_line: bool


class ValueLocation(NamedTuple):
    """A value in the text: its mark, its key if it has one, and its parent mapping or list."""

    path: Path
    mark: ValueMark
    entry: EntryMark | None = None
    parent: ValueLocation | None = None

    @property
    def span(self) -> tuple[int, int]:
        """Start and end offset of the value, or of the alias that refers to it."""
        return self.mark.alias or (self.mark.start, self.mark.stop)


class Member(NamedTuple):
    """A field of a mapping or an item of a list, from its key or dash (in block style) to its end."""

    start: int
    stop: int
    name: str | int


class SourceText(NamedTuple):
    """The text of a document, or the part of a file that is parsed together with it."""

    text: str
    root: ValueMark
    json: bool
    style: TextStyle
    comments: tuple[CommentSpan, ...]

    # --- lines -------------------------------------------------------------------------------------------------------

    def line_start(self, offset: int) -> int:
        """The offset at which the line of ``offset`` starts."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_stop(self, offset: int) -> int:
        """The offset at which the line of ``offset`` ends, before its line break."""
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def next_line(self, offset: int) -> int:
        """The offset at which the next line starts."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end + 1

    def column(self, offset: int) -> int:
        """The column of an offset, counted from 0."""
        return offset - self.line_start(offset)

    def is_first_on_line(self, offset: int) -> bool:
        """Whether only white space precedes an offset on its line."""
        return not self.text[self.line_start(offset) : offset].strip()

    def comments_in(self, start: int, stop: int) -> list[CommentSpan]:
        """The comments that start within a range."""
        return [comment for comment in self.comments if start <= comment.start < stop]

    def comment_text(self, comment: CommentSpan) -> str:
        """A comment with its ``#``."""
        return self.text[comment.start : comment.stop]

    def blanks_before(self, comment: CommentSpan) -> str:
        """The white space before a comment."""
        before = self.text[self.line_start(comment.start) : comment.start]
        return before[len(before.rstrip()) :]

    def comments_above(self, offset: int) -> int:
        """The start of the comment lines directly above the line of ``offset``, or of that line if there are none."""
        start = self.line_start(offset)
        for comment in reversed(self.comments):
            if comment.own_line and self.next_line(comment.start) == start:
                start = self.line_start(comment.start)
        return start

    def comments_below_end(self, offset: int, column: int) -> int:
        """The end of the comment lines directly below the line of ``offset``, indented by at least ``column``."""
        end = self.next_line(offset)
        for comment in self.comments:
            if comment.own_line and self.line_start(comment.start) == end and self.column(comment.start) >= column:
                end = self.next_line(comment.start)
        return end

    def skip_blank_lines(self, offset: int) -> int:
        """The end of the lines at ``offset`` that contain white space only."""
        match = _BLANKS.match(self.text, offset)
        return match.end() if match else offset

    def trailing_end(self, offset: int, column: int) -> int:
        """The end of the last comment line that is indented deeper than ``column``, before the next content.

        Lines of white space are included: below a block scalar they would become part of its text.
        """
        end = self.skip_blank_lines(self.next_line(offset))
        written = self.next_content(end)
        for comment in self.comments_in(end, written):
            if self.column(comment.start) > column:
                end = self.next_line(comment.start)
        return end

    # --- values ------------------------------------------------------------------------------------------------------

    def find(self, path: Path) -> ValueLocation:
        """The value at a path. Raises ``EditError`` if the text has no value there."""
        location = ValueLocation((), self.root)
        for depth, step in enumerate(path):
            mark = location.mark
            if mark.alias is not None:
                alias = self.text[slice(*mark.alias)]
                raise EditError(f"{join_path(location.path)} is an alias ({alias}): edit the value at its anchor")
            prefix = path[: depth + 1]
            if mark.entries is not None and str(step) in mark.entries:
                entry = mark.entries[str(step)]
                location = ValueLocation(prefix, entry.value, entry, location)
            elif mark.items is not None and isinstance(step, int) and 0 <= step < len(mark.items):
                location = ValueLocation(prefix, mark.items[step], None, location)
            else:
                raise EditError(f"{join_path(prefix)} is not set directly here")
        return location

    def indicator_end(self, location: ValueLocation) -> int:
        """The offset after the colon or dash before a value, or the start of the value if there is neither."""
        if location.entry is not None:
            colon = self.next_content(location.entry.stop)
            if self.text[colon : colon + 1] != ":":
                raise EditError(f"{join_path(location.path)} is a key without a value")
            return colon + 1
        if location.parent is not None and location.parent.mark.block:
            return self.members(location.parent)[int(location.path[-1])].start + 1
        return location.span[0]

    def next_content(self, offset: int) -> int:
        """The next offset that is neither white space nor part of a comment."""
        match = _FILLING.match(self.text, offset)
        return match.end() if match else offset

    def content_start(self, location: ValueLocation) -> int:
        """The start of a value after its anchor and tag."""
        match = _PROPERTIES.match(self.text, location.mark.start)
        return match.end() if match else location.mark.start

    def members(self, location: ValueLocation) -> list[Member]:
        """The fields of a mapping or the items of a list. Raises ``EditError``."""
        mark = location.mark
        if mark.alias is not None:
            raise EditError(f"{join_path(location.path)} is an alias: edit the value at its anchor")
        if mark.entries is not None:
            return [
                Member(entry.start, max(entry.stop, _stop(entry.value)), name) for name, entry in mark.entries.items()
            ]
        members: list[Member] = []
        offset = self.content_start(location)
        for number, item in enumerate(mark.items or ()):
            if mark.block:
                dash = self.next_content(offset)
                if self.text[dash : dash + 1] != "-":
                    raise EditError(f"{join_path(location.path)} is a list whose items cannot be separated")
                offset = max(dash + 1, _stop(item))
                members.append(Member(dash, offset, number))
            else:
                start, stop = item.alias or (item.start, item.stop)
                members.append(Member(start, stop, number))
        return members


def _stop(mark: ValueMark) -> int:
    return mark.alias[1] if mark.alias is not None else mark.stop


def source_text(text: str, root: ValueMark, *, json: bool) -> SourceText:
    """Return a text with its comments and its formatting style."""
    return SourceText(text, root, json, _detect_style(text, root, json), () if json else tuple(_comment_spans(text)))


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Apply splices, which must not overlap; splices at the same position are applied in the given order."""
    parts: list[str] = []
    offset = 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.stop)):
        if splice.start < offset:
            raise EditError("two changes overlap")
        parts += (text[offset : splice.start], splice.text)
        offset = splice.stop
    return "".join((*parts, text[offset:]))


def with_stripped_block(text: str, root: ValueMark) -> str:
    """Return a text with the chomping indicator ``-`` on its last value, if that is a block scalar."""
    last = root
    while (inner := [entry.value for entry in (last.entries or {}).values()] or last.items or []) and last.block:
        last = inner[-1]
    header = _BLOCK.match(text, last.start)
    return text if header is None else text[: header.end()] + "-" + text[header.end() :]


def _comment_spans(text: str) -> Iterator[CommentSpan]:
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for comment in find_comments(text).comments:
        start = starts[comment.line - 1] + comment.column - 1
        stop = starts[comment.line - 1] + len(lines[comment.line - 1].rstrip())
        yield CommentSpan(start, stop, comment.own_line)


# --- style detection -------------------------------------------------------------------------------------------------


def _detect_style(text: str, root: ValueMark, json: bool) -> TextStyle:
    newline = "\r\n" if "\r\n" in text else "\n"
    if json:
        return _detect_json_style(text, root)._replace(newline=newline)
    field_indents: Counter[int] = Counter()
    list_indents: Counter[int] = Counter()
    quotes: Counter[str] = Counter()
    key_quotes: Counter[str] = Counter()
    _count_styles(text, root, -1, field_indents, list_indents, quotes, key_quotes)
    field_indent = field_indents.most_common(1)[0][0] if field_indents else 2
    list_indent = list_indents.most_common(1)[0][0] if list_indents else 0
    key_quote = key_quotes.most_common(1)[0][0] if key_quotes else ""
    quote = "'" if quotes["'"] > quotes['"'] else '"'
    allows_unquoted = bool(quotes[""]) or quotes.total() < _QUOTED_STYLE_MIN
    return TextStyle(field_indent, list_indent, quote, newline, key_quote=key_quote, allows_unquoted=allows_unquoted)


def _count_styles(
    text: str,
    mark: ValueMark,
    column: int,
    field_indents: Counter[int],
    list_indents: Counter[int],
    quotes: Counter[str],
    key_quotes: Counter[str],
) -> None:
    """Count the indentation of fields and of lists below their keys, and the quotes of strings and of keys."""
    if mark.alias is not None:
        return
    if mark.entries is not None:
        for entry in mark.entries.values():
            value = entry.value
            key_quotes[text[entry.start] if text[entry.start] in "'\"" else ""] += 1
            if mark.block and value.block and value.line > entry.line and value.alias is None:
                (field_indents if value.entries is not None else list_indents)[value.column - entry.column] += 1
            _count_styles(text, value, entry.column, field_indents, list_indents, quotes, key_quotes)
    elif mark.items is not None:
        for item in mark.items:
            _count_styles(text, item, column, field_indents, list_indents, quotes, key_quotes)
    elif text[mark.start : mark.start + 1] in ("'", '"'):
        quotes[text[mark.start]] += 1
    elif is_plain(text[mark.start : mark.stop]):
        quotes[""] += 1


def _detect_json_style(text: str, root: ValueMark) -> TextStyle:
    members = [(entry.start, entry) for entry in (root.entries or {}).values()]
    if not members:
        return TextStyle()
    first, entry = members[0]
    before = text[root.start + 1 : first]
    colon = text[entry.stop : entry.value.start] or ": "
    comma = ", "
    if len(members) > 1:
        comma = text[entry.value.stop : members[1][0]]
    indent = before[before.rfind("\n") + 1 :] if "\n" in before else None
    if indent is not None:
        margin = len(text[text.rfind("\n", 0, root.start) + 1 : root.start])
        indent = indent[margin:] if indent[:margin].isspace() or not margin else indent
    json_indent = indent or ("  " if indent is not None else None)
    return TextStyle(json_indent=json_indent, comma="," if comma == "," else ", ", colon=colon)
