"""The position in a manifest that an API error refers to.

A server does not know files: its Status names a field, or only the object. This module adds the file position and, for
Kubernetes' own kinds, suggestions for misspelled fields.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.cluster.errors import StatusError
from allotment.model.decoding import DecodingError, decode
from allotment.model.loading import Document, Position


class SourceLocation(NamedTuple):
    """``position``: of the field or the object. ``advice``: one line each."""

    position: Position
    advice: tuple[str, ...] = ()


def locate_error(document: Document, error: StatusError) -> SourceLocation:
    """The position in a document that an error refers to."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    fields = [cause["field"] for cause in causes if isinstance(cause, dict) and cause.get("field")]
    if error.code == 422 and fields:
        return SourceLocation(document.position(fields[0]))
    if error.code in (400, 500):  # a decoding error; server-side apply returns 500
        try:
            decode(document)
        except DecodingError as misread:
            first, *others = misread.problems
            more = (f"{problem.position}: {problem.message}{problem.hint and '; '}{problem.hint}" for problem in others)
            return SourceLocation(first.position, tuple(filter(None, (first.hint, *more))))
    return SourceLocation(document.position())
