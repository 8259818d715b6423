"""Faults that a test puts into simulated hardware: operations that fail, and a process that dies at any step.

Hardware takes each operation in steps, and tells :class:`Faults` before, between and after them. So a test can stop the
world where it likes, also half way through making a MIG device.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from allotment.drivers.nvidia.hardware import HardwareError

Moment = Literal["before", "between", "after"]


class Crash(BaseException):
    """The driver's process dies here: nothing of it runs any more, the hardware stays as it is."""


class HardwareStep(NamedTuple):
    """Where an operation is. ``operation``: the method's name; ``on``: PCI address or daemon."""

    operation: str
    moment: Moment
    target: str


class FaultInjector:
    """What shall go wrong. ``steps``: all that were taken, for a test to count."""

    def __init__(self) -> None:
        self.steps: list[HardwareStep] = []
        self._failing: list[tuple[str, Moment, int]] = []
        self._crash_in: int | None = None

    def fail(self, operation: str, *, moment: Moment = "before", times: int = 1) -> None:
        """Let the next calls of an operation fail at a moment (``create_mig`` ``between``: its compute instance)."""
        self._failing.append((operation, moment, times))

    def crash_in(self, steps: int | None) -> None:
        """Crash after so many more steps; None: not at all."""
        self._crash_in = steps

    def clear(self) -> None:
        """Nothing goes wrong any more."""
        self._failing.clear()
        self._crash_in = None

    def take(self, step: HardwareStep) -> None:
        """Hardware takes a step. Raises HardwareError or Crash where a test wants it."""
        self.steps.append(step)
        if self._crash_in is not None:
            if self._crash_in == 0:
                self._crash_in = None
                raise Crash(f"{step.operation} {step.moment} {step.target}")
            self._crash_in -= 1
        for index, (operation, moment, times) in enumerate(self._failing):
            if (operation, moment) == (step.operation, step.moment):
                if times > 1:
                    self._failing[index] = (operation, moment, times - 1)
                else:
                    del self._failing[index]
                raise HardwareError(f"{step.target}: {operation}: simulated failure {moment} it")
