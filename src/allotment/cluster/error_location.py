"""The position in a manifest that an API error refers to.

A server does not know files: its Status names a field, or only the object. This module adds the file position and, for
Kubernetes' own kinds, the advice for common mistakes.
"""

from __future__ import annotations

from typing import NamedTuple

from allotment.cel.readable_errors import refusal_sentence
from allotment.cluster.errors import StatusError
from allotment.model.decoding import DecodingError, decode
from allotment.model.field_advice import rejected_value_advice
from allotment.model.loading import Document, Position
from allotment.model.loading.marks import Path, at, split_path


class SourceLocation(NamedTuple):
    """``position``: of the field or the object. ``sentence``: the mistake, if the server's text is hard to read.
    ``advice``: one line each."""

    position: Position
    advice: tuple[str, ...] = ()
    sentence: str = ""


def locate_error(document: Document, error: StatusError) -> SourceLocation:
    """The position in a document that an error refers to."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    named = [cause for cause in causes if isinstance(cause, dict) and cause.get("field")]
    if error.code == 422 and named:
        sentences = (_sentence(document, split_path(cause["field"]), cause.get("message") or "") for cause in named)
        sentence = next(filter(None, sentences), "")
        return SourceLocation(document.position(named[0]["field"]), sentence=sentence)
    if error.code in (400, 500):  # a decoding error; server-side apply returns 500
        try:
            decode(document)
        except DecodingError as misread:
            first, *others = misread.problems
            more = (f"{problem.position}: {problem.message}{problem.hint and '; '}{problem.hint}" for problem in others)
            return SourceLocation(first.position, tuple(filter(None, (first.hint, *more))))
    return SourceLocation(document.position())


def _sentence(document: Document, path: Path, text: str) -> str:
    if path[-1:] == ("expression",):
        return refusal_sentence(str(at(document.tree, path)), text)
    advice = rejected_value_advice(path, text)
    return advice.sentence if advice is not None else ""
