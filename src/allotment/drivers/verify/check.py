"""A check of a driver, and its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from allotment.drivers.verify.driver_session import DriverSession

#: ``warn``: not required by a specification, but a disadvantage for users.
Result = Literal["pass", "FAIL", "warn", "skipped"]


class DriverCheck(NamedTuple):
    """An expectation of kubelets.

    ``run`` returns what was observed; it raises CheckFailed and CheckSkipped. ``source``: the specification, or the
    kubelet's behavior that requires it.
    """

    name: str
    expected: str
    source: str
    run: Callable[[DriverSession], Awaitable[str]]
    needs_command: bool = False
    advice: bool = False
    """Not required by a specification: a failure is a warning."""


class CheckResult(NamedTuple):
    """The result of a check."""

    check: DriverCheck
    result: Result
    seen: str
    expected: str = ""
    remedy: str = ""
    seconds: float = 0.0
