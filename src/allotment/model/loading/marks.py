"""Where each value of a document stands: a tree beside the tree of values, made only when somebody asks."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeAlias

# One nesting limit for everything that walks documents; Kubernetes' own objects stay below thirty.
MAX_DEPTH: Final = 200
# As many problems of one kind in one document as anybody reads; upstream stops at a hundred too.
MAX_PROBLEMS: Final = 100

_INDEX: Final = re.compile("[0-9]{1,9}", re.ASCII)
_STEP: Final = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")

Path: TypeAlias = tuple[str | int, ...]


class ValueMark(NamedTuple):
    """Line and column (from 0) where a value starts, and its children: keyed entries or items.

    ``start`` and ``stop`` are its offsets in the text: from its anchor or tag, if it has one, to the end of what is
    written, without the comments and blank lines that follow. ``block`` tells a mapping or list in block style.
    ``alias`` is where ``*name`` stands when the value was written elsewhere.
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
    """A key of a mapping: where the key stands, and its value. What a merge brings has no entry."""

    line: int
    column: int
    value: ValueMark
    start: int = 0
    stop: int = 0


class DocumentError(Exception):
    """Raised inside the readers when a document cannot be read; line and column count from 0."""

    def __init__(self, code: str, message: str, line: int, column: int, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint


class DuplicateKey(NamedTuple):
    """A key given twice: its path, where it stands again and on which line it stood first (from 0)."""

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
    """The steps of a field path as validation spells it; what stands in brackets is an index or a key.

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


def too_deep(tree: Any) -> bool:
    """Whether containers nest deeper than ``MAX_DEPTH``; walks by level, so depth itself costs nothing."""
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
