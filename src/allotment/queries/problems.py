"""Errors for programs: problem details (RFC 9457), with the same sentences as on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from allotment.cluster.errors import StatusError, Unreachable
from allotment.errors import InputError, InvalidManifests
from allotment.extras import MissingExtraError
from allotment.model.meta import Value
from allotment.phrases import counted
from allotment.time_limits import StoppedError, TookTooLongError

#: The media type of a problem.
MEDIA_TYPE: Final = "application/problem+json"
#: The beginning of the types of problems, which are names and no addresses.
_TYPE: Final = "urn:allotment:problem:"
#: The type of a problem whose `errors` are those of manifests.
MANIFESTS: Final = f"{_TYPE}invalid-manifests"
#: The type of a problem if the cluster of the server does not respond.
UNREACHABLE: Final = f"{_TYPE}unreachable"
#: The most single problems in an answer; the rest is counted.
_SHOWN: Final = 50


class Problem(Value, frozen=True):
    """The reason why a request has no answer.

    ``type``: a stable name. ``title``: what kind of problem; ``detail``: this one. ``hint``: what to do. ``errors``:
    the problems of manifests, each with its place.
    """

    type: str
    title: str
    status: int
    detail: str = ""
    instance: str = ""
    hint: str = ""
    errors: tuple[Mapping[str, Any], ...] = ()


def problem(kind: str, title: str, status: int, detail: str, hint: str = "") -> Problem:
    """Return a problem of a kind such as ``bad-input``."""
    return Problem(type=f"{_TYPE}{kind}", title=title, status=status, detail=detail, hint=hint)


def problem_of(error: Exception) -> Problem | None:
    """Return an error of the user, or of the cluster, as a problem; None for a bug in Allotment."""
    if isinstance(error, InvalidManifests):
        return _invalid_manifests(error)
    if isinstance(error, InputError):
        return problem("bad-input", "The request cannot be answered", 400, error.message, error.hint)
    if isinstance(error, StatusError):
        return problem("cluster", "The cluster rejected a request", 502, str(error))
    if isinstance(error, Unreachable):
        return problem("unreachable", "The cluster does not respond", 503, str(error))
    if isinstance(error, TookTooLongError):
        hint = "send fewer manifests or replicas at a time, or use the command line, which has no limit"
        return problem("took-too-long", "The answer takes too long", 503, str(error), hint)
    if isinstance(error, StoppedError):
        return problem("stopping", "The server ends", 503, "the server ends before the answer is complete")
    if isinstance(error, MissingExtraError):
        return problem("not-installed", "The server cannot answer this", 501, str(error))
    return None


def internal(error: Exception) -> Problem:
    """Return the problem for a bug, without the text of the error, which may contain objects of the cluster."""
    hint = "this is a bug in Allotment: report it with the traceback in the log of the server"
    return problem("internal", "Internal error", 500, type(error).__name__, hint)


def _invalid_manifests(error: InvalidManifests) -> Problem:
    """Return the problem of manifests; the first one is the detail."""
    errors = error.to_dict()["problems"]
    more = len(errors) - 1
    detail = str(error.problems[0]) if error.problems else str(error)
    if more:
        detail = f"{detail}; and {counted(more, 'more problem')}"
    return Problem(
        type=MANIFESTS, title="The manifests are invalid", status=422, detail=detail, errors=tuple(errors[:_SHOWN])
    )
