"""A document: one object as it was written, and where each of its values stands.

Positions are worked out only when somebody asks, by reading the text a second time, so that loading thousands of
correct files costs nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from allotment.model.loading.character_offsets import character_offsets
from allotment.model.loading.marks import EntryMark, Path, ValueMark, split_path
from allotment.model.problems import Position


class Origin:
    """The text that documents came from; several documents of one list share it.

    ``source`` is the whole text of the file as it was read, ``text`` the part of it, from ``offset`` on, that was read
    by itself; ``json`` tells in which syntax. ``marks`` gives the positions of the same document in such a part.
    """

    __slots__ = ("_mark", "file", "first_line", "json", "marks", "offset", "source", "text")

    def __init__(
        self,
        file: str,
        first_line: int,
        marks: Callable[[str], ValueMark],
        source: str = "",
        text: str = "",
        offset: int = 0,
        *,
        json: bool = False,
    ) -> None:
        self.file = file
        self.first_line = first_line
        self.marks = marks
        self.source = source
        self.text = text
        self.offset = offset
        self.json = json
        self._mark: ValueMark | None = None

    def mark(self) -> ValueMark:
        """The tree of positions of the whole text."""
        if self._mark is None:
            self._mark = self.marks(self.text)
        return self._mark

    def position(self, line: int, column: int) -> Position:
        """A position from line and column within the text, both from 0."""
        return Position(self.file, self.first_line + line, column + 1)

    def position_at(self, offset: int) -> Position:
        """A position from an offset in ``text``."""
        return self.position(self.text.count("\n", 0, offset), offset - (self.text.rfind("\n", 0, offset) + 1))


class _Found(NamedTuple):
    """Where a path led: the value, its entry when it has a key, and the column of the block around it.

    ``whole`` tells whether the path led to its end.
    """

    mark: ValueMark
    entry: EntryMark | None
    indent: int
    whole: bool


class Document:
    """One object as written: ``tree`` is its JSON value, a mapping, which nobody may change.

    ``index`` counts the objects of a file from 0. Items of a list are documents of their own.
    """

    __slots__ = ("base", "index", "origin", "tree")

    def __init__(self, tree: dict[str, Any], origin: Origin, index: int, base: Path = ()) -> None:
        self.tree = tree
        self.origin = origin
        self.index = index
        self.base = base

    def __repr__(self) -> str:
        return f"<Document {self.index} of {self.file}: {self.kind} {self.name}>"

    @property
    def file(self) -> str:
        """The file as it was named on the command line, or found in a folder; ``<stdin>`` for standard input."""
        return self.origin.file

    @property
    def api_version(self) -> str:
        """``apiVersion`` as written, empty when it is no string."""
        return _text(self.tree.get("apiVersion"))

    @property
    def kind(self) -> str:
        """``kind`` as written, empty when it is no string."""
        return _text(self.tree.get("kind"))

    @property
    def name(self) -> str:
        """``metadata.name`` as written, empty when it is no string."""
        metadata = self.tree.get("metadata")
        return _text(metadata.get("name")) if isinstance(metadata, dict) else ""

    def position(self, path: Path | str = (), *, at: Literal["value", "key"] = "value") -> Position:
        """Where the value at ``path`` stands, or its nearest ancestor that was written.

        ``path`` is steps or the text of a field path, in the v1 shape whatever version was written: ``exactly`` is
        stepped over where it does not exist, ``basic`` is stepped into where it does. A block that starts on the
        line below its key counts as being at its key; ``at="key"`` gives the key always.
        """
        mark, entry, _, _ = self._find(path)
        if entry is not None:
            key = (entry.line, entry.column)
            if at == "key" or (mark.block and (mark.line, mark.column) > key):
                return self.origin.position(*key)
        return self.origin.position(mark.line, mark.column)

    def extent(
        self, path: Path | str = (), *, at: Literal["value", "key"] = "value", part: tuple[int, int] | None = None
    ) -> tuple[Position, Position]:
        """From where to where the value at ``path`` stands, by the rules of ``position``; the end is one past the last.

        ``part`` is a range of code points of the string there: what is told is where these are written, through
        quotes, escapes, folded lines and the indentation of blocks. A mapping or list in block style is marked at its
        key, or at the first thing in it.
        """
        mark, entry, indent, whole = self._find(path)
        origin = self.origin
        if part is not None and whole and at == "value" and mark.entries is None and mark.items is None:
            found = character_offsets(origin.text, mark.start, mark.stop, indent).span(*part)
            if found is not None:
                return origin.position_at(found[0]), origin.position_at(found[1])
        empty = mark.start == mark.stop  # a null of which nothing is written
        if entry is not None and (at == "key" or empty or (mark.block and mark.start > entry.start)):
            start, stop = entry.start, entry.stop
        else:
            start, stop = _first(mark)
        return origin.position_at(start), origin.position_at(max(start, stop))

    def _find(self, path: Path | str) -> _Found:
        if isinstance(path, str):
            path = split_path(path)
        mark = self.origin.mark()
        entry: EntryMark | None = None
        indent = -1
        whole = True
        for step in (*self.base, *path):
            around = mark
            found = _step(mark, step)
            if found is None:
                if step == "exactly":
                    continue
                basic = _step(mark, "basic")
                found = _step(basic[0], step) if basic else None
                if found is None:
                    whole = False
                    break
                assert basic is not None
                around = basic[0]
            mark, entry = found
            indent = entry.column if entry is not None else around.column
        return _Found(mark, entry, indent, whole)


def _step(mark: ValueMark, step: str | int) -> tuple[ValueMark, EntryMark | None] | None:
    if mark.entries is not None:
        entry = mark.entries.get(str(step))
        return None if entry is None else (entry.value, entry)
    if mark.items is not None and isinstance(step, int) and 0 <= step < len(mark.items):
        return mark.items[step], None
    return None


def _first(mark: ValueMark) -> tuple[int, int]:
    """A value's extent; of a block the first key, with its value where that is a scalar on the same line."""
    start = mark.start
    while mark.block:
        if mark.entries:
            entry = next(iter(mark.entries.values()))
            nested = entry.value.entries is not None or entry.value.items is not None
            same = not nested and entry.value.line == entry.line and entry.value.alias is None
            return entry.start, max(entry.stop, entry.value.stop) if same else entry.stop
        if not mark.items:
            break
        mark = mark.items[0]
        start = mark.start
    return start, mark.stop


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
