"""Where in a manifest stands what a cluster refused.

A server knows fields and no files: its Status names a field, or only the object. Here the file is known, and (for the
kinds of Kubernetes) what a misspelt field was probably meant to be.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.cluster.errors import StatusError
from allotment.model.decoding import DecodingError, decode
from allotment.model.loading import Document, Position


class Place(NamedTuple):
    """``position``: of the field, or of the object. ``advice``: a line each."""

    position: Position
    advice: tuple[str, ...] = ()


def place_of(document: Document, error: StatusError) -> Place:
    """The place that a refusal of a document is about."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    fields = [cause["field"] for cause in causes if isinstance(cause, dict) and cause.get("field")]
    if error.code == 422 and fields:
        return Place(document.position(fields[0]))
    if error.code in (400, 500):  # what cannot be decoded; server-side apply says 500
        try:
            decode(document)
        except DecodingError as misread:
            first, *others = misread.problems
            more = (f"{one.position}: {one.message}{one.hint and '; '}{one.hint}" for one in others)
            return Place(first.position, tuple(filter(None, (first.hint, *more))))
    return Place(document.position())
