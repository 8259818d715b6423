"""Fault injection for simulated hardware: operations that fail, and a process that crashes at a chosen step.

The hardware executes each operation in steps, and calls :class:`FaultInjector` before, between and after them. So a
test can stop at any step, for example between the two instances of a MIG device.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from allotment.drivers.nvidia.hardware import HardwareError

Moment = Literal["before", "between", "after"]


class Crash(BaseException):
    """A simulated crash of the driver's process: the driver stops, and the hardware stays as it is."""


class HardwareStep(NamedTuple):
    """A step of an operation. ``operation``: the method's name; ``target``: PCI address, daemon or node."""

    operation: str
    moment: Moment
    target: str


class FaultInjector:
    """The faults to inject. ``steps``: all executed steps."""

    def __init__(self) -> None:
        self.steps: list[HardwareStep] = []
        self._failing: list[tuple[str, Moment, int]] = []
        self._crash_in: int | None = None

    def fail(self, operation: str, *, moment: Moment = "before", times: int = 1) -> None:
        """Let the next calls of an operation fail at a moment (``create_mig`` ``between``: its compute instance)."""
        self._failing.append((operation, moment, times))

    def crash_in(self, steps: int | None) -> None:
        """Crash after this many more steps; None: do not crash."""
        self._crash_in = steps

    def clear(self) -> None:
        """Remove all faults."""
        self._failing.clear()
        self._crash_in = None

    def take(self, step: HardwareStep) -> None:
        """Record a step. Raises HardwareError or Crash if a fault is due."""
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
