"""What to change in a document, as values on its tree. A path is that of the document as it is written.

An edit says what is meant (these fields belong under ``exactly``), not how the text changes, so that the rewriter can
keep comments where they belong, and check that the text which it made says what was meant.

Several edits of one document all have the paths, item numbers and offsets that it has as it is written; what an earlier
one makes can be named by the path that it gets (``following``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from allotment.model.loading.marks import Path


class SetValue(NamedTuple):
    """The value at ``path`` becomes ``value``, a scalar or a whole tree.

    A last step that the mapping does not have is added: before all others if ``first``, after the key ``after`` if the
    mapping has it, or at the end.
    """

    path: Path
    value: Any
    after: str | None = None
    first: bool = False


class ReplaceText(NamedTuple):
    """In the string at ``path``, the code points from ``start`` to ``stop`` become ``text``."""

    path: Path
    start: int
    stop: int
    text: str


class RenameKey(NamedTuple):
    """The key at ``path`` is called ``name``; its value and its place stay."""

    path: Path
    name: str


class Remove(NamedTuple):
    """The field or item at ``path`` goes. Comments stay: who wrote them can tell whether they are needed any more."""

    path: Path


class Nest(NamedTuple):
    """Of the mapping at ``path``, the fields ``keys`` (those that it has) move under a new key ``under``.

    The new key stands where the first of them stood.
    """

    path: Path
    keys: tuple[str, ...]
    under: str


class Lift(NamedTuple):
    """The mapping at ``path`` goes, and its fields take its place in the mapping around it."""

    path: Path


class InsertItem(NamedTuple):
    """``value`` becomes item ``number`` of the list at ``path``."""

    path: Path
    index: int
    value: Any


Edit: TypeAlias = SetValue | ReplaceText | RenameKey | Remove | Nest | Lift | InsertItem


class EditError(ValueError):
    """Raised when an edit does not fit the document: nothing at its path, or another kind of value."""
