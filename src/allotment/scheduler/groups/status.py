"""The outcome of an attempt to schedule a group, with Kubernetes' messages."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

#: Kubernetes puts this in front of the reasons of a group that is unschedulable.
UNSCHEDULABLE: Final = "pod group is unschedulable"
NO_PLACEMENTS: Final = "no feasible placements found"
DEALLOCATED: Final = "deallocation and deletion of ResourceClaims completed"
NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
GROUP_DEALLOCATED: Final = "deallocation of PodGroup ResourceClaim completed"
ONGOING: Final = "ongoing preemption on nominated nodes"


class Code(Enum):
    """The kind of an outcome."""

    SUCCESS = auto()
    WAIT = auto()
    """The minimum is not reached yet."""
    UNSCHEDULABLE = auto()
    ERROR = auto()


class GroupStatus:
    """The outcome for a group; its reasons grow, and groups whose parent failed share the status of the parent.

    ``prefixed``: whether the message starts with `UNSCHEDULABLE`.
    """

    __slots__ = ("code", "prefixed", "reasons")

    def __init__(self, code: Code, *reasons: str, prefixed: bool = False) -> None:
        self.code = code
        self.reasons = list(reasons)
        self.prefixed = prefixed

    @property
    def ok(self) -> bool:
        return self.code is Code.SUCCESS

    @property
    def message(self) -> str:
        """The reasons, separated by commas."""
        return ", ".join([UNSCHEDULABLE, *self.reasons] if self.prefixed else self.reasons)

    @property
    def cause(self) -> str:
        """The text when the status is quoted by another one."""
        return UNSCHEDULABLE if self.prefixed else self.message

    def copy(self) -> GroupStatus:
        """Return a copy with reasons of its own."""
        return GroupStatus(self.code, *self.reasons, prefixed=self.prefixed)


def success() -> GroupStatus:
    """Return a status without reasons."""
    return GroupStatus(Code.SUCCESS)


def feasibility(minimum: int, scheduled: int, remaining: int) -> GroupStatus:
    """Return whether the minimum number of pods (or child groups) is reached, or can still be reached.

    >>> feasibility(3, 2, 0).message
    'minCount (3) cannot be satisfied: 2 scheduled, 0 remaining'
    """
    counts = f"{scheduled} scheduled, {remaining} remaining"
    if remaining + scheduled < minimum:
        return GroupStatus(Code.UNSCHEDULABLE, f"minCount ({minimum}) cannot be satisfied: {counts}")
    if scheduled < minimum:
        return GroupStatus(Code.WAIT, f"minCount ({minimum}) is not yet satisfied: {counts}")
    return success()


def no_placement(tried: int, first: GroupStatus) -> GroupStatus:
    """Return the status of a group that fits in none of its placements."""
    text = f"0/{tried} placements are available, first placement status: {first.cause}"
    return GroupStatus(Code.UNSCHEDULABLE, text, prefixed=True)


def error(text: str) -> GroupStatus:
    """Return the status of a group whose attempt ended with an error."""
    return GroupStatus(Code.ERROR, text)
