"""What a cluster answers when it does not do what was asked."""

from __future__ import annotations

from typing import Any


class StatusError(Exception):
    """The API refused: ``status`` is its ``Status`` object."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message") or status.get("reason") or "the server answered without a message")
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

    Its objects cannot be read, and may well be there: unlike 404 it never means that there are none.
    """

    def __init__(self, resource: str, why: str) -> None:
        message = f"{resource} cannot be read: {why}"
        super().__init__({"kind": "Status", "code": 406, "reason": "NotAcceptable", "message": message})


class Unreachable(Exception):
    """No answer came: what was tried, and why it failed."""


class NoCredentials(Unreachable):
    """Nobody was asked: what would tell the cluster who asks, or us that it is the cluster, cannot be had or used."""
