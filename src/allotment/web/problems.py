"""Errors as responses: problem details (RFC 9457) for programs, the page itself for browsers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from allotment.cluster.errors import StatusError, Unreachable
from allotment.errors import InputError
from allotment.extras import MissingExtraError
from allotment.queries.problems import MEDIA_TYPE, Problem, internal, problem, problem_of
from allotment.time_limits import StoppedError, TookTooLongError

log = logging.getLogger(__name__)

#: Returns the response to a request that failed.
Responder: TypeAlias = Callable[[Request, Exception], Awaitable[Response]]


class ProblemError(Exception):
    """Raised to answer a request with a problem."""

    def __init__(self, found: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(found.detail)
        self.problem = found
        self.headers = headers


def rejected(status: int, kind: str, title: str, detail: str, hint: str = "") -> ProblemError:
    """Return the error for a request that is rejected."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return ProblemError(problem(kind, title, status, detail, hint), headers)


def problem_response(found: Problem, path: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem as a response."""
    body = msgspec.json.encode(replace(found, instance=path).to_dict())
    return Response(body, found.status, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store", **(headers or {})})


#: Errors that are answered; Exception stands for bugs.
_ERRORS: Final = (
    ProblemError, HTTPException, InputError, StatusError, Unreachable, MissingExtraError, TookTooLongError,
    StoppedError, ClientDisconnect, Exception,
)  # fmt: skip


def error_handlers(respond: Responder | None = None) -> dict[Any, Responder]:
    """Return the handlers of an application, which answer every error. ``respond``: instead of `respond_to_error`."""
    return dict.fromkeys(_ERRORS, respond or respond_to_error)


async def respond_to_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that failed. The traceback of a bug is logged, never sent."""
    path = request.url.path
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    if isinstance(error, ProblemError):
        return problem_response(error.problem, path, error.headers)
    if isinstance(error, HTTPException):
        title = {404: "Not found", 405: "Method not allowed"}.get(error.status_code, "The request was rejected")
        kind = {404: "not-found", 405: "method"}.get(error.status_code, "rejected")
        detail = f"{request.method} {path} is not served" if error.status_code in (404, 405) else error.detail
        return problem_response(problem(kind, title, error.status_code, detail), path, error.headers)
    found = problem_of(error)
    if found is None:
        log.error("%s %s: internal error", request.method, path, exc_info=error)
        found = internal(error)
    return problem_response(found, path)
