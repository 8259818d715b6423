"""Failed requests to other servers, in the words of Go's HTTP client and of client-go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from allotment.model.quoting import quote
from allotment.model.trees import Tree

#: The most bytes of a text response that an error contains.
_MAX_TEXT: Final = 2048
#: The texts of client-go for the codes that it knows.
_TEXTS: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallFailed(Exception):
    """Raised if a request got no usable answer; ``cause``: the reason without the request.

    ``status``: the Status that the server answered, if it did.
    """

    def __init__(self, cause: str, message: str = "", status: Tree | None = None) -> None:
        super().__init__(message or cause)
        self.cause = cause
        self.status = status

    def during(self, method: str, url: str) -> CallFailed:
        """The error with its request, as Go's client shows it."""
        return CallFailed(self.cause, f"{method.capitalize()} {quote(url)}: {self.cause}")


def dial_failed(address: str, reason: str) -> CallFailed:
    """A connection that could not be established."""
    return CallFailed(f"dial tcp {address}: connect: {reason}")


def timed_out() -> CallFailed:
    """A request that was not answered in time."""
    return CallFailed("context deadline exceeded")


def refused_by_server(code: int, headers: Mapping[str, str], body: bytes) -> CallFailed:
    """An answer with an error code: a Status in the body decides, else the code."""
    status = _status(body)
    if status is not None:
        return CallFailed(str(status.get("message") or ""), status=status)
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    text = "unknown"
    if not media or media.startswith("text/"):
        text = body[:_MAX_TEXT].decode(errors="replace").strip()
    if code in (403, 415) or (code == 406 and text not in ("", "unknown")):
        return CallFailed(text)
    if code in _TEXTS:
        return CallFailed(_TEXTS[code])
    if code >= 500:
        return CallFailed(f"an error on the server ({quote(text)}) has prevented the request from succeeding")
    return CallFailed(f"the server responded with the status code {code} but did not return more information")


def _status(body: bytes) -> Tree | None:
    """The failure Status in a body."""
    try:
        tree = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    is_failure = isinstance(tree, dict) and tree.get("kind") == "Status" and tree.get("status") == "Failure"
    return tree if is_failure else None
