"""The steps of a planned expression, and the frame in which they run.

A planned node is a :class:`PlanStep`. Its ``run`` is called with the *frame*, a list, which is the fastest structure in
CPython: the cost so far, the cost limit, the remaining work, the device, then the variables. Errors are exceptions; the
cost that upstream counts for a failing expression is added before its error is raised.

The cost limit is checked in loops and at the end; cost only grows, so later checks do not change the result. "Work"
counts operations that upstream does not charge for: visits of list elements, formatted characters. It bounds
expressions that would run for hours upstream; exceeding the work limit is reported as exceeding the cost limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from allotment.cel.evaluation.values import CostLimitExceeded, ListValue, Value, weight

Frame: TypeAlias = "list[Any]"
Run: TypeAlias = "Callable[[Frame], Value]"

COST: Final = 0
LIMIT: Final = 1
WORK: Final = 2
DEVICE: Final = 3
FIRST_SLOT: Final = 4

#: Limit on the work of one evaluation, about one second.
WORK_LIMIT: Final = 10_000_000


class CountingFrame(list[Any]):
    """A frame that stops at the step that exceeds the limit. With it, a plan without fused steps gives the cost at
    which upstream stops."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        if index == COST and not 0 <= value <= self[LIMIT]:
            raise CostLimitExceeded(value % (1 << 64))
        list.__setitem__(self, index, value)


def charge_work(frame: Frame, *values: Value) -> None:
    """Charges the traversal of values as work. Raises CostLimitExceeded."""
    for value in values:
        if type(value) is ListValue and value.size > frame[WORK]:
            raise CostLimitExceeded
        frame[WORK] -= weight(value)
    if frame[WORK] < 0 or not 0 <= frame[COST] <= frame[LIMIT]:
        raise CostLimitExceeded


class PlanStep:
    """A planned node; ``run`` evaluates it."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run


class Constant(PlanStep):
    """A value known at compile time, without cost."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        super().__init__(lambda frame: value)
        self.value = value


class PrecomputedCall(PlanStep):
    """A call whose result is computed at compile time, such as ``quantity("1Gi")``; its cost is charged at run time."""

    __slots__ = ("cost", "value")

    def __init__(self, value: Value, cost: int) -> None:
        def run(frame: Frame) -> Value:
            frame[COST] += cost
            return value

        super().__init__(run)
        self.value = value
        self.cost = cost
