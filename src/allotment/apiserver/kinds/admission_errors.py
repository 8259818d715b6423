"""The Forbidden and TooManyRequests errors of admission; errors common to all requests are in ``api_errors``."""

from __future__ import annotations

from typing import Any

from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.validation.errors import failure_status


def _details(bucket: str, name: str) -> dict[str, Any]:
    plural, _, group = bucket.partition(".")
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def forbidden(bucket: str, name: str, why: str) -> StatusError:
    """403 by admission or authorization; ``bucket`` is ``plural.group``.

    >>> print(forbidden("pods", "x", "no PriorityClass with name ghost was found"))
    pods "x" is forbidden: no PriorityClass with name ghost was found
    """
    subject = f"{bucket} {quote(name)}" if name else bucket
    return StatusError(failure_status(403, "Forbidden", f"{subject} is forbidden: {why}", _details(bucket, name)))


def too_many_requests(message: str, cause: dict[str, str], retry_after: int) -> StatusError:
    """A 429 Status; the client may retry the same request."""
    details: dict[str, Any] = {"causes": [cause]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return StatusError(failure_status(429, "TooManyRequests", message, details))
