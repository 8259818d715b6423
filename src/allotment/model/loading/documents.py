"""A document: one object as written, with the source position of each value.

Positions are computed on demand by parsing the text a second time, so that they cost nothing while correct files are
loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from allotment.model.loading.character_offsets import character_offsets
from allotment.model.loading.marks import EntryMark, Path, ValueMark, split_path
from allotment.model.problems import Position


class Origin:
    """The text that documents were parsed from; the documents of one list share it.

    ``source``: the text of the whole file. ``text``: the part of it, starting at ``offset``, that was parsed
    separately. ``json``: whether the syntax is JSON. ``marks``: computes the positions of the same document in such a
    part.
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

    @classmethod
    def without_text(cls, name: str) -> Origin:
        """Return the origin of objects that have no text: their positions contain only its name."""
        return cls(name, 1, lambda _: ValueMark(0, 0, False, None, None))

    def mark(self) -> ValueMark:
        """The positions of the values in ``text``."""
        if self._mark is None:
            self._mark = self.marks(self.text)
        return self._mark

    def position(self, line: int, column: int) -> Position:
        """The position of a line and column of the text, both counted from 0."""
        return Position(self.file, self.first_line + line, column + 1)

    def position_at(self, offset: int) -> Position:
        """The position of an offset in ``text``."""
        return self.position(self.text.count("\n", 0, offset), offset - (self.text.rfind("\n", 0, offset) + 1))


class _PathMatch(NamedTuple):
    """The value at a path, its entry if it has a key, and the column of the enclosing block.

    ``complete``: the whole path exists; otherwise the value is the nearest ancestor.
    """

    mark: ValueMark
    entry: EntryMark | None
    indent: int
    complete: bool


class Document:
    """One object as written. ``tree`` is its JSON value, a mapping, which must not be changed.

    ``index`` counts the objects of a file from 0. Each item of a list is a separate document.
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
        """The file name as given on the command line or found in a folder; ``<stdin>`` for standard input."""
        return self.origin.file

    @property
    def api_version(self) -> str:
        """``apiVersion`` as written; empty if it is not a string."""
        return _string_or_empty(self.tree.get("apiVersion"))

    @property
    def kind(self) -> str:
        """``kind`` as written; empty if it is not a string."""
        return _string_or_empty(self.tree.get("kind"))

    @property
    def name(self) -> str:
        """``metadata.name`` as written; empty if it is not a string."""
        metadata = self.tree.get("metadata")
        return _string_or_empty(metadata.get("name")) if isinstance(metadata, dict) else ""

    def position(self, path: Path | str = (), *, at: Literal["value", "key"] = "value") -> Position:
        """The position of the value at ``path``, or of its nearest ancestor in the text.

        ``path``: steps or the text of a field path, in the v1 shape for every version of the document: ``exactly`` is
        skipped if it does not exist, ``basic`` is entered if it does. The position of a block that starts on the line
        below its key is that of the key; with ``at="key"`` it is always the key's.
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
        """Start and exclusive end of the value at ``path``, by the rules of ``position``.

        ``part``: a range of code points of the string at ``path``; the result is their extent in the text, through
        quotes, escapes, folded lines and block indentation. The extent of a mapping or list in block style is its key,
        or its first member.
        """
        mark, entry, indent, complete = self._find(path)
        origin = self.origin
        if part is not None and complete and at == "value" and mark.entries is None and mark.items is None:
            span = character_offsets(origin.text, mark.start, mark.stop, indent).span(*part)
            if span is not None:
                return origin.position_at(span[0]), origin.position_at(span[1])
        empty = mark.start == mark.stop  # an implicit null
        if entry is not None and (at == "key" or empty or (mark.block and mark.start > entry.start)):
            start, stop = entry.start, entry.stop
        else:
            start, stop = _first_extent(mark)
        return origin.position_at(start), origin.position_at(max(start, stop))

    def _find(self, path: Path | str) -> _PathMatch:
        if isinstance(path, str):
            path = split_path(path)
        mark = self.origin.mark()
        entry: EntryMark | None = None
        indent = -1
        complete = True
        for step in (*self.base, *path):
            parent = mark
            child = _step(mark, step)
            if child is None:
                if step == "exactly":
                    continue
                basic = _step(mark, "basic")
                child = _step(basic[0], step) if basic else None
                if child is None:
                    complete = False
                    break
                assert basic is not None
                parent = basic[0]
            mark, entry = child
            indent = entry.column if entry is not None else parent.column
        return _PathMatch(mark, entry, indent, complete)


def _step(mark: ValueMark, step: str | int) -> tuple[ValueMark, EntryMark | None] | None:
    if mark.entries is not None:
        entry = mark.entries.get(str(step))
        return None if entry is None else (entry.value, entry)
    if mark.items is not None and isinstance(step, int) and 0 <= step < len(mark.items):
        return mark.items[step], None
    return None


def _first_extent(mark: ValueMark) -> tuple[int, int]:
    """The extent of a value; of a block, its first key, with the value if that is a scalar on the same line."""
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


def _string_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""
