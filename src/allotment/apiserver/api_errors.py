"""Constructors for the failure ``Status`` responses that apply to all kinds, with kube-apiserver's messages."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.apiserver.kinds.kind import ServedKind
from allotment.cluster.errors import StatusError
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, failure_status, invalid_status


def _details(group: str, plural: str, name: str) -> Tree:
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def bad_request(message: str) -> StatusError:
    """400: the request cannot be decoded."""
    return StatusError(failure_status(400, "BadRequest", message))


def unauthorized() -> StatusError:
    """401: missing or unknown credentials."""
    return StatusError(failure_status(401, "Unauthorized", "Unauthorized"))


def forbidden(kind: ServedKind, name: str, reason: str, causes: Sequence[Tree] = ()) -> StatusError:
    """403: admission rejected the object."""
    details = _details(kind.group, kind.plural, name)
    if causes:
        details["causes"] = list(causes)
    return StatusError(failure_status(403, "Forbidden", f"{kind.bucket} {quote(name)} is forbidden: {reason}", details))


def access_denied(group: str, plural: str, name: str, reason: str) -> StatusError:
    """403: the user lacks the permission."""
    prefix = _qualified(group, plural) + (f" {quote(name)}" if name else "") + " is " if plural else ""
    return StatusError(failure_status(403, "Forbidden", f"{prefix}forbidden: {reason}", _details(group, plural, name)))


def unknown_path() -> StatusError:
    """404: the path is not served."""
    return StatusError(failure_status(404, "NotFound", "the server could not find the requested resource", {}))


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404: the object does not exist."""
    message = f"{_qualified(group, plural)} {quote(name)} not found"
    return StatusError(failure_status(404, "NotFound", message, _details(group, plural, name)))


def method_not_allowed() -> StatusError:
    """405: the resource does not support the method."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(failure_status(405, "MethodNotAllowed", message, {}))


def already_exists(kind: ServedKind, name: str) -> StatusError:
    """409: an object with this name exists."""
    message = f"{kind.bucket} {quote(name)} already exists"
    return StatusError(failure_status(409, "AlreadyExists", message, _details(kind.group, kind.plural, name)))


def conflict(group: str, resource: str, name: str, reason: str) -> StatusError:
    """409: a precondition failed. ``resource`` is plural, or a kind where upstream uses that."""
    message = f"Operation cannot be fulfilled on {_qualified(group, resource)} {quote(name)}: {reason}"
    return StatusError(failure_status(409, "Conflict", message, _details(group, resource, name)))


def modified(kind: ServedKind, name: str) -> StatusError:
    """409: the object was changed after it was read."""
    reason = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind.group, kind.plural, name, reason)


def expired(message: str, details: Tree | None = None) -> StatusError:
    """410: the history no longer contains the revision."""
    status = failure_status(410, "Expired", message)
    return StatusError({**status, "metadata": details} if details else status)


def too_large(limit: int) -> StatusError:
    """413: the body exceeds the limit."""
    message = f"Request entity too large: limit is {limit}"
    return StatusError(failure_status(413, "RequestEntityTooLarge", message))


def not_acceptable(message: str, details: Tree | None = None) -> StatusError:
    """406: no acceptable media type is available."""
    return StatusError(failure_status(406, "NotAcceptable", message, details))


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415: the media type is not supported."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(failure_status(415, "UnsupportedMediaType", message))


def unsupported_patch_type() -> StatusError:
    """415: no patch of a built-in kind has this media type. The message names no accepted types."""
    return StatusError(failure_status(415, "UnsupportedMediaType", "415: Unsupported Media Type", {}))


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422: the object is invalid."""
    return StatusError(invalid_status(group, kind, name, errors))


def unclassified(message: str) -> StatusError:
    """500 without a reason: an error that upstream returns unwrapped."""
    status = failure_status(500, "", message)
    del status["reason"]
    return StatusError(status)


def internal(message: str) -> StatusError:
    """500: a bug in the server."""
    details = {"causes": [{"message": message}]}
    return StatusError(failure_status(500, "InternalError", f"Internal error occurred: {message}", details))


def unavailable(message: str) -> StatusError:
    """503: the server cannot answer at present."""
    return StatusError(failure_status(503, "ServiceUnavailable", message))


def revision_too_large(requested: int, current: int) -> StatusError:
    """504: the requested revision does not exist yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return StatusError(failure_status(504, "Timeout", message, details))


def success(details: Tree | None = None, code: int = 0) -> Tree:
    """A ``Status`` of success."""
    status: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    return status | {"code": code} if code else status
