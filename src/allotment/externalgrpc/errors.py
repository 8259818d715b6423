"""Exceptions of a cloud provider's calls; the gRPC status of each class decides how the autoscaler reacts."""

from __future__ import annotations


class CallError(Exception):
    """Base of the errors; the text appears in the autoscaler's log and events."""


class NotFoundError(CallError):
    """The group, or the machine in the group, does not exist."""


class InvalidArgumentError(CallError):
    """The request is invalid: a size over the maximum, an increase of zero."""


class FailedPreconditionError(CallError):
    """The call is not possible in the current state: the order to be cancelled is a node already."""


class ResourceExhaustedError(CallError):
    """The cloud has no capacity for it now."""


class PermissionDeniedError(CallError):
    """The cloud rejects the call, and a retry would not help."""


class UnavailableError(CallError):
    """A dependency of the call cannot be reached."""


class UnimplementedError(CallError):
    """The optional call is not implemented."""
