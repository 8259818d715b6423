"""What a check is, and how it can come out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from allotment.drivers.verify.trial import Trial

#: ``warn``: no contract asks for it, and users are worse off without it.
Result = Literal["pass", "FAIL", "warn", "skipped"]


class Wrong(Exception):
    """Raised by a check for a driver that does not do what a kubelet expects: what was seen, what to do about it.

    ``wanted`` is for what the check's own words do not say.
    """

    def __init__(self, seen: str, remedy: str, wanted: str = "") -> None:
        super().__init__(seen)
        self.seen = seen
        self.remedy = remedy
        self.wanted = wanted


class NotChecked(Exception):
    """Raised by a check that cannot be made here; the text says why, and what would be needed."""


class Check(NamedTuple):
    """One thing that kubelets expect of drivers.

    ``run`` returns what was seen; raises Wrong and NotChecked. ``source``: where the expectation is written, or what
    behaviour of kubelets makes it one.
    """

    name: str
    expected: str
    source: str
    run: Callable[[Trial], Awaitable[str]]
    needs_command: bool = False
    advice: bool = False
    """No contract asks for it: a driver that does otherwise is warned."""


class Row(NamedTuple):
    """How a check came out."""

    check: Check
    result: Result
    seen: str
    wanted: str = ""
    remedy: str = ""
    seconds: float = 0.0
