"""Response heads, and the error responses of the transport itself."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import msgspec

from allotment.apiserver.http_messages import Response

Headers = tuple[tuple[str, str], ...]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_REASONS = {status.value: status.phrase for status in HTTPStatus} | {
    413: "Request Entity Too Large",
    422: "Unprocessable Entity",
}
#: Characters that would end a header and allow header injection.
_BREAKS = str.maketrans({"\r": " ", "\n": " ", "\0": " "})


@lru_cache(maxsize=1024)
def head(code: int, headers: Headers) -> bytes:
    """Status line and headers, without the terminating empty line."""
    lines = [f"HTTP/1.1 {code} {_REASONS.get(code, 'Status')}\r\n"]
    lines += [f"{name.translate(_BREAKS)}: {value.translate(_BREAKS)}\r\n" for name, value in headers]
    return "".join(lines).encode("utf-8", "replace")


_date = (0, b"")


def date() -> bytes:
    """The Date header, cached for a second."""
    global _date  # noqa: PLW0603 - a cache of one value
    now = int(time.time())
    if _date[0] != now:
        _date = (now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode())
    return _date[1]


def has_body(code: int) -> bool:
    """Whether a response of this code may have a body: not 1xx, 204 and 304."""
    return code >= 200 and code != 204 and code != 304


def refusal(code: int, reason: str, message: str, headers: Headers = ()) -> Response:
    """A Status object, as the API returns it."""
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    }  # fmt: skip
    plain = (("Cache-Control", "no-cache, private"), ("Content-Type", "application/json"))
    return Response(code, plain + headers, msgspec.json.encode(status))


def bad_request(message: str) -> Response:
    """The response to input that is not HTTP/1.1."""
    return refusal(400, "BadRequest", message)


def too_large(limit: int) -> Response:
    """The response of kube-apiserver to a large body."""
    return refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")
