"""Edits of a document, described as changes to its tree.

An edit states the intended change of the tree (these fields belong under ``exactly``), not the change of the text, so
that the rewriter can keep comments in place and verify that the new text contains the intended tree.

All edits of one document use the paths, item indices and offsets of the original document. A value that an earlier
edit creates is referred to by its new path (``path_rebasing``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from allotment.model.loading.marks import Path


class SetValue(NamedTuple):
    """Set the value at ``path`` to ``value``, a scalar or a tree.

    A missing key is added: before all others if ``first``, after the key ``after`` if the mapping has it, or at the
    end.
    """

    path: Path
    value: Any
    after: str | None = None
    first: bool = False


class ReplaceText(NamedTuple):
    """Replace the code points from ``start`` to ``stop`` of the string at ``path`` by ``text``."""

    path: Path
    start: int
    stop: int
    text: str


class RenameKey(NamedTuple):
    """Rename the key at ``path`` to ``name``; its value and position do not change."""

    path: Path
    name: str


class Remove(NamedTuple):
    """Remove the field or item at ``path``. Comments stay: their author decides whether they are still needed."""

    path: Path


class Nest(NamedTuple):
    """Move the fields ``keys`` of the mapping at ``path``, as far as it has them, under a new key ``under``.

    The new key takes the position of the first of these fields.
    """

    path: Path
    keys: tuple[str, ...]
    under: str


class Lift(NamedTuple):
    """Replace the mapping at ``path`` by its fields in the parent mapping."""

    path: Path


class InsertItem(NamedTuple):
    """Insert ``value`` as item ``position`` of the list at ``path``."""

    path: Path
    position: int
    value: Any


class AddDocument(NamedTuple):
    """Add the object ``value`` at the end of the document's file. It changes no value, whatever its ``path``."""

    value: Any
    path: Path = ()


Edit: TypeAlias = SetValue | ReplaceText | RenameKey | Remove | Nest | Lift | InsertItem | AddDocument


class EditError(ValueError):
    """Raised if an edit does not fit the document: its path does not exist, or the value has another type."""
