"""What a call can end with instead of an answer; each kind is one gRPC status, by which the autoscaler goes."""

from __future__ import annotations


class CallFailed(Exception):
    """A call has no answer; the text is what the autoscaler logs and tells in its events."""


class NotFound(CallFailed):
    """There is no such group, or no such machine in it."""


class InvalidArgument(CallFailed):
    """Nobody could do what was asked: a size over the maximum, a step of zero."""


class NotNow(CallFailed):
    """It could be done at another time: a node that was to be taken back as an order is there already."""


class OutOfResources(CallFailed):
    """The cloud has none of it now."""


class Denied(CallFailed):
    """The cloud will not do it, and asking again would not help."""


class Unavailable(CallFailed):
    """What the answer depends on cannot be reached."""


class NotServed(CallFailed):
    """An optional call that has no answer here."""
