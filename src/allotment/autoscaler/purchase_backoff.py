"""Machines in vain, for which money was spent while pods wait on: then the next is not bought at once.

A driver that is broken everywhere, a catalogue that promises what no node has, a taint that somebody sets on every new
node: the plan is right each time, and the machine of no use each time. Whatever the cause, what is spent on pods that
ask the same is bounded (`Restraint.most`); the first pod of them that gets a node ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Plans in vain that cost no wait: machines do break down.
_FREE_FAILURES: Final = 2


class PurchaseBackoff:
    """How long pods have to wait, by what they ask for. Times are seconds of one scale.

    ``first``: the first wait; each is twice the one before, ``longest`` at most.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._plan = 0
        self._plans: dict[str, tuple[int, frozenset[str]]] = {}
        """By order the plan, and what its pods asked for; an order from before is a plan of its own."""
        self._last: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def start_plan(self) -> None:
        """A plan is carried out: machines of one plan that come to nothing count as one."""
        self._plan += 1

    def ordered(self, order: str, requirements: Iterable[str]) -> None:
        """A machine of this plan, for pods that ask for this; it counts even if they are gone when it fails."""
        self._plans[order] = self._plan, frozenset(requirements)

    def keep(self, orders: Iterable[str]) -> None:
        """Only these orders are there still."""
        self._plans = {order: self._plans[order] for order in orders if order in self._plans}

    def failed(self, order: str, requirements: Iterable[str], now: float) -> None:
        """A machine came to nothing for pods that ask for this."""
        plan, recorded = self._plans.get(order, (None, frozenset()))
        for wish in recorded.union(requirements):
            if plan is not None and self._last.get(wish) == plan:
                continue
            if plan is not None:
                self._last[wish] = plan
            vain = self._failures[wish] = self._failures.get(wish, 0) + 1
            if vain > _FREE_FAILURES:
                self._until[wish] = now + self.duration(wish)

    def served(self, wish: str) -> None:
        """A pod that asked for this has a node."""
        for known in (self._last, self._failures, self._until):
            known.pop(wish, None)

    def failures(self, wish: str) -> int:
        """How many plans in a row came to nothing."""
        return self._failures.get(wish, 0)

    def duration(self, wish: str) -> float:
        """How long the wait is that the last plan in vain has begun."""
        waits = self._failures.get(wish, 0) - _FREE_FAILURES
        return min(self._first * 2 ** min(waits - 1, 32), self._longest) if waits > 0 else 0.0

    def remaining(self, wish: str, now: float) -> float:
        """How long nothing is bought for pods that ask for this."""
        return max(self._until.get(wish, now) - now, 0.0)

    def next(self, now: float) -> float | None:
        """When something may be bought again; None if nothing has to wait."""
        return min((until for until in self._until.values() if until > now), default=None)

    def ended(self, now: float) -> bool:
        """Whether some wait has ended since this was last asked."""
        over = [wish for wish, until in self._until.items() if until <= now]
        for wish in over:
            del self._until[wish]
        return bool(over)

    def max_plans(self, seconds: float) -> int:
        """How many plans are bought within so many seconds, from the first on, for pods that never get a node.

        >>> restraint = Restraint(first=60, longest=1800)
        >>> restraint.most(3600), restraint.most(24 * 3600)
        (8, 54)
        """
        plans, at, wait = 1 + _FREE_FAILURES, self._first, self._first
        while at <= seconds:
            plans += 1
            wait = min(2 * wait, self._longest)
            at += wait
        return plans
