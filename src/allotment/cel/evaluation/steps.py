"""What a planned expression is made of, and the state that running it needs.

A planned node is a :class:`Step`. Running one is a call of its ``run`` with the *frame*, a plain list, because nothing
else is as fast in CPython: the cost so far, the cost limit, the work left, the device, then the variables. Failures are
exceptions. Cost is added before a failure is raised, exactly as much as upstream counts for the failing expression.

The cost limit is checked where work can repeat, and at the end; cost only grows, so that cannot change the outcome.
"Work" counts what upstream does not charge for: visits of list elements, characters printed. It bounds expressions for
which upstream would run for hours; hitting its end reads as hitting the cost limit.
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

#: Uncharged steps that one evaluation may take, about a second of them.
WORK_LIMIT: Final = 10_000_000


class CountingFrame(list[Any]):
    """A frame that stops at the very step that exceeds the limit: with it, a plan without fused steps finds the cost
    at which upstream stops."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        if index == COST and not 0 <= value <= self[LIMIT]:
            raise CostLimitExceeded(value % (1 << 64))
        list.__setitem__(self, index, value)


def charge_work(frame: Frame, *values: Value) -> None:
    """Account for a traversal of values."""
    for value in values:
        if type(value) is ListValue and value.size > frame[WORK]:
            raise CostLimitExceeded
        frame[WORK] -= weight(value)
    if frame[WORK] < 0 or not 0 <= frame[COST] <= frame[LIMIT]:
        raise CostLimitExceeded


class PlanStep:
    """A planned expression of any kind but the ones below."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run


class Constant(PlanStep):
    """A value known when the selector is compiled; it costs nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        super().__init__(lambda frame: value)
        self.value = value


class PrecomputedCall(PlanStep):
    """A call whose result and cost are known beforehand, such as ``quantity("1Gi")``; its cost is charged when run."""

    __slots__ = ("cost", "value")

    def __init__(self, value: Value, cost: int) -> None:
        def run(frame: Frame) -> Value:
            frame[COST] += cost
            return value

        super().__init__(run)
        self.value = value
        self.cost = cost
