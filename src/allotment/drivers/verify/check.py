"""What a check is, and the row that tells how it came out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from allotment.drivers.verify.driver_session import DriverSession

#: ``warn``: no contract asks for it, and users are worse off without it.
Result = Literal["pass", "FAIL", "warn", "skipped"]


class DriverCheck(NamedTuple):
    """One thing that kubelets expect of drivers.

    ``run`` returns what was seen; raises Wrong and NotChecked. ``source``: where the expectation is written, or what
    behaviour of kubelets makes it one.
    """

    name: str
    expected: str
    source: str
    run: Callable[[DriverSession], Awaitable[str]]
    needs_command: bool = False
    advice: bool = False
    """No contract asks for it: a driver that does otherwise is warned."""


class CheckResult(NamedTuple):
    """How a check came out."""

    check: DriverCheck
    result: Result
    seen: str
    expected: str = ""
    remedy: str = ""
    seconds: float = 0.0
