"""A document: one object as it was written, and where each of its values stands.

Positions are worked out only when somebody asks, by reading the text a second time, so that loading thousands of
correct files costs nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from allotment.model.loading.marks import Mark, Path, split_path
from allotment.model.problems import Position


class Origin:
    """The text that documents came from; several documents of one list share it."""

    __slots__ = ("_mark", "_marks", "file", "first_line")

    def __init__(self, file: str, first_line: int, marks: Callable[[], Mark]) -> None:
        self.file = file
        self.first_line = first_line
        self._marks = marks
        self._mark: Mark | None = None

    def mark(self) -> Mark:
        """The tree of positions of the whole text."""
        if self._mark is None:
            self._mark = self._marks()
        return self._mark

    def position(self, line: int, column: int) -> Position:
        """A position from line and column within the text, both from 0."""
        return Position(self.file, self.first_line + line, column + 1)


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
        if isinstance(path, str):
            path = split_path(path)
        mark = self.origin.mark()
        key: tuple[int, int] | None = None
        for step in (*self.base, *path):
            found = _step(mark, step)
            if found is None:
                if step == "exactly":
                    continue
                basic = _step(mark, "basic")
                found = _step(basic[0], step) if basic else None
                if found is None:
                    break
            mark, key = found
        if key is not None and (at == "key" or (mark.block and (mark.line, mark.column) > key)):
            return self.origin.position(*key)
        return self.origin.position(mark.line, mark.column)


def _step(mark: Mark, step: str | int) -> tuple[Mark, tuple[int, int] | None] | None:
    if mark.entries is not None:
        entry = mark.entries.get(str(step))
        return None if entry is None else (entry.value, (entry.line, entry.column))
    if mark.items is not None and isinstance(step, int) and 0 <= step < len(mark.items):
        return mark.items[step], None
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
