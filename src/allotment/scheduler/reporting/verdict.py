"""Why a group of pods waits, as a value: what Kubernetes says, and what is needed to say more."""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.resource import ResourceClaim
from allotment.node_fit.filters.refusal import Refusal


class Verdict(NamedTuple):
    """``reason``: Unschedulable or SchedulerError, as the condition has it."""

    reason: str
    sentence: str
    pending: tuple[ResourceClaim, ...] = ()
    """What was to be allocated."""
    refusals: dict[int, Refusal] | None = None
    """By place; None if no node was looked at, or an error ended the attempt."""
    group: str = ""
    """The pod's PodGroup, if that is what is missing."""
    full: tuple[str, int] | None = None
    """A claim that takes no more users, and how many it has."""
    elsewhere: tuple[str, ...] = ()
    """Claims that are allocated where the pod cannot use them."""
    nominated: str | None = None
    """The node for which pods were preempted; empty to take an earlier nomination back, None to leave it."""
