"""How a call can fail: each class is one gRPC status, by which the autoscaler decides what to do."""

from __future__ import annotations


class CallFailed(Exception):
    """A call failed; the text is what the autoscaler logs and writes in its events."""


class NotFound(CallFailed):
    """There is no such group, or no such machine in it."""


class InvalidArgument(CallFailed):
    """Nobody could do what was asked: a size over the maximum, a step of zero."""


class NotNow(CallFailed):
    """It cannot be done now: the order that was to be taken back is a node already."""


class OutOfResources(CallFailed):
    """The cloud has none of it now."""


class Denied(CallFailed):
    """The cloud will not do it, and asking again would not help."""


class Unavailable(CallFailed):
    """What the answer depends on cannot be reached."""


class NotServed(CallFailed):
    """An optional call that has no answer here."""
