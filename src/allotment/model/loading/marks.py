"""Source positions of the values of a document: a tree of marks parallel to the tree of values, built on demand."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeAlias

# The nesting limit for all code that walks documents; objects of Kubernetes are nested less than thirty levels deep.
MAX_DEPTH: Final = 200
# The maximum number of problems of one kind per document, as upstream.
MAX_PROBLEMS: Final = 100

_INDEX: Final = re.compile("[0-9]{1,9}", re.ASCII)
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")

Path: TypeAlias = tuple[str | int, ...]


class ValueMark(NamedTuple):
    """Line and column (from 0) at which a value starts, and its children: keyed entries or items.

    ``start`` and ``stop``: offsets in the text, from the anchor or tag, if any, to the end of the value, without the
    comments and blank lines after it. ``block``: a mapping or list in block style. ``alias``: the offsets of ``*name``
    if the value is an alias.
    """

    line: int
    column: int
    block: bool
    entries: dict[str, EntryMark] | None
    items: list[ValueMark] | None
    start: int = 0
    stop: int = 0
    alias: tuple[int, int] | None = None


class EntryMark(NamedTuple):
    """The position of a key of a mapping, and its value. Fields from a merge key have no entry."""

    line: int
    column: int
    value: ValueMark
    start: int = 0
    stop: int = 0


class DocumentError(Exception):
    """Raised by the parsers if a document cannot be parsed. Line and column count from 0."""

    def __init__(self, code: str, message: str, line: int, column: int, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint


class DuplicateKey(NamedTuple):
    """A key that occurs twice: its path, the position of the second, and the line of the first (from 0)."""

    path: str
    line: int
    column: int
    first_line: int


def join_path(steps: Path) -> str:
    """The field path as the API server spells it when decoding: ``spec.devices.requests[0].name``."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def split_path(text: str) -> Path:
    """The steps of a field path as validation spells it; text in brackets is an index or a key.

    >>> split_path("spec.devices[0].attributes[example.com/a.b].string")
    ('spec', 'devices', 0, 'attributes', 'example.com/a.b', 'string')
    """
    steps: list[str | int] = []
    for name, bracketed in _STEP.findall(text):
        if bracketed or not name:
            steps.append(int(bracketed) if _INDEX.fullmatch(bracketed) else bracketed)
        else:
            steps.append(name)
    return tuple(steps)


def at(tree: Any, path: Path) -> Any:
    """The value at a path, or None if it does not exist."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(tree, list) or not 0 <= step < len(tree):
                return None
            tree = tree[step]
        elif isinstance(tree, dict):
            tree = tree.get(step)
        else:
            return None
    return tree


def too_deep(tree: Any) -> bool:
    """Whether containers are nested deeper than ``MAX_DEPTH``. Walks level by level, without recursion."""
    level = [tree]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True
