"""The errors that all types of patch share, with kube-apiserver's messages."""

from __future__ import annotations

from typing import Any

from allotment.cluster.errors import StatusError
from allotment.model.validation.errors import failure_status


def bad_request(message: str) -> StatusError:
    """400: the patch cannot be decoded."""
    return StatusError(failure_status(400, "BadRequest", message))


def inapplicable() -> StatusError:
    """422: the patch is well-formed but does not fit the object. The message contains no reason."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(failure_status(422, "Invalid", message, {}))


def too_large(message: str) -> StatusError:
    """413: the patch exceeds a limit."""
    return StatusError(failure_status(413, "RequestEntityTooLarge", f"Request entity too large: {message}"))


def unclassified(message: str) -> StatusError:
    """500 without a reason, which upstream returns for errors that are not API errors."""
    status: dict[str, Any] = failure_status(500, "", message)
    del status["reason"]
    return StatusError(status)
