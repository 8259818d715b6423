"""The objects of the manifests that a lab applies, and the error if one of them cannot be applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from allotment.cluster.error_location import SourceLocation, locate_error
from allotment.cluster.errors import StatusError
from allotment.lab.kinds import UnknownKind
from allotment.model.loading import Document, LoadResult, is_manifest_text, load_paths, load_text
from allotment.model.trees import Tree

Source = str | Path | Tree | Document | Sequence["Source"]


class NotApplied(Exception):
    """Raised if a manifest cannot be read or the API rejects one of its objects, with its location.

    ``code`` and ``reason``: those of the API's :class:`~allotment.cluster.errors.StatusError`, such as 403 and
    ``Forbidden``; 0 and empty if the object was not sent.
    """

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.code, self.reason = (cause.code, cause.reason) if isinstance(cause, StatusError) else (0, "")


def not_applied(document: Document | None, error: StatusError | UnknownKind) -> NotApplied:
    """Return the error for an object, with its source location if it has one."""
    if document is None:
        return NotApplied(str(error), error)
    place = SourceLocation(document.position()) if isinstance(error, UnknownKind) else locate_error(document, error)
    words = f"{place.position}: {document.kind} {document.name}: {error}"
    return NotApplied("\n  ".join(filter(None, (words, place.sentence, *place.advice))), error)


def documents(source: Source) -> Iterable[tuple[Tree, Document | None]]:
    """The objects of manifests, each with its source location if there is one."""
    if isinstance(source, dict):
        yield source, None
    elif isinstance(source, Document):
        yield source.tree, source
    elif isinstance(source, str | Path):
        loaded = load_text(source) if isinstance(source, str) and is_manifest_text(source) else load_paths([source])
        yield from _loaded(loaded)
    else:
        for item in source:
            yield from documents(item)


def _loaded(loaded: LoadResult) -> Iterable[tuple[Tree, Document]]:
    if loaded.problems:
        raise NotApplied("\n".join(f"{problem.position}: {problem.message}" for problem in loaded.problems))
    for document in loaded.documents:
        yield document.tree, document
