"""Exceptions for failed requests to a cluster."""

from __future__ import annotations

from typing import Any


class StatusError(Exception):
    """Raised when the API server rejects a request. ``status`` is its ``Status`` object."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(
            status.get("message") or status.get("reason") or "the server responded with an error without a message"
        )
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return int(self.status.get("code") or 500)

    @property
    def reason(self) -> str:
        """``NotFound``, ``AlreadyExists``, ``Conflict``, ``Invalid``, ``Expired`` …; may be empty."""
        return str(self.status.get("reason") or "")


class UnknownVersions(StatusError):
    """Raised for a resource that the cluster serves only in versions that the client does not know.

    Its objects cannot be read but may exist; 404 means that there are none.
    """

    def __init__(self, resource: str, why: str) -> None:
        message = f"{resource} cannot be read: {why}"
        super().__init__({"kind": "Status", "code": 406, "reason": "NotAcceptable", "message": message})


class Unreachable(Exception):
    """Raised when the server does not respond. The text contains the request and the reason."""


class NoCredentials(Unreachable):
    """Raised before a request is sent if credentials or the certificate authority are missing or unusable."""


class NothingReadable(StatusError):
    """Raised if the user may read none of the required kinds."""
