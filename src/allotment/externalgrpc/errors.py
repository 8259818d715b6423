"""How a call can fail: each class is one gRPC status, by which the autoscaler decides what to do."""

from __future__ import annotations


class CallError(Exception):
    """A call failed; the text is what the autoscaler logs and writes in its events."""


class NotFoundError(CallError):
    """There is no such group, or no such machine in it."""


class InvalidArgumentError(CallError):
    """Nobody could do what was asked: a size over the maximum, a step of zero."""


class FailedPreconditionError(CallError):
    """It cannot be done now: the order that was to be taken back is a node already."""


class ResourceExhaustedError(CallError):
    """The cloud has none of it now."""


class PermissionDeniedError(CallError):
    """The cloud will not do it, and asking again would not help."""


class UnavailableError(CallError):
    """What the answer depends on cannot be reached."""


class UnimplementedError(CallError):
    """An optional call that has no answer here."""
