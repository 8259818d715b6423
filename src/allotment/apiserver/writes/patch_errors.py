"""How a patch is refused: the few answers that all forms of patch share, with the real server's words."""

from __future__ import annotations

from typing import Any

from allotment.cluster.errors import StatusError
from allotment.model.validation.errors import failure_status


def bad_request(message: str) -> StatusError:
    """400: the patch cannot be read."""
    return StatusError(failure_status(400, "BadRequest", message))


def inapplicable() -> StatusError:
    """422: the patch is well formed but does not fit the object. The server does not say why."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(failure_status(422, "Invalid", message, {}))


def too_large(message: str) -> StatusError:
    """413."""
    return StatusError(failure_status(413, "RequestEntityTooLarge", f"Request entity too large: {message}"))


def unclassified(message: str) -> StatusError:
    """500 without a reason: an error that upstream passes on as it is."""
    status: dict[str, Any] = failure_status(500, "", message)
    del status["reason"]
    return StatusError(status)
