"""Back-off for orders whose machines repeatedly did not help their pods, which bounds the cost.

A driver that fails everywhere, a catalog that does not match the real nodes, a taint set on every new node: each plan
is correct, and each machine useless. Whatever the cause, the spending on equivalent pods is bounded
(`PurchaseBackoff.max_plans`); the first of them that gets a node resets it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

#: Failed plans without back-off, because machines do fail occasionally.
_FREE_FAILURES: Final = 2


class PurchaseBackoff:
    """Back-off by the requirements of pods. Times are seconds of one clock.

    ``first``: the first back-off; it doubles each time up to ``longest``.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._plan = 0
        self._plans: dict[str, tuple[int, frozenset[str]]] = {}
        """By order its plan and the requirements of its pods; an order from an earlier process is its own plan."""
        self._last: dict[str, int] = {}
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def start_plan(self) -> None:
        """Start a plan: all failed machines of one plan count as one failure."""
        self._plan += 1

    def ordered(self, order: str, requirements: Iterable[str]) -> None:
        """Record a machine of this plan and requirements it serves, even if its pods are deleted before it fails."""
        self._plans[order] = self._plan, frozenset(requirements)

    def keep(self, orders: Iterable[str]) -> None:
        """Drop all orders but these."""
        self._plans = {order: self._plans[order] for order in orders if order in self._plans}

    def failed(self, order: str, requirements: Iterable[str], now: float) -> None:
        """Record a machine that did not help pods with these requirements."""
        plan, recorded = self._plans.get(order, (None, frozenset()))
        for requirement in recorded.union(requirements):
            if plan is not None and self._last.get(requirement) == plan:
                continue
            if plan is not None:
                self._last[requirement] = plan
            vain = self._failures[requirement] = self._failures.get(requirement, 0) + 1
            if vain > _FREE_FAILURES:
                self._until[requirement] = now + self.duration(requirement)

    def served(self, requirement: str) -> bool:
        """Reset the back-off, because a pod with these requirements got a node; return whether others wait for its end,
        which `next` no longer returns."""
        self._last.pop(requirement, None)
        self._failures.pop(requirement, None)
        return self._until.pop(requirement, None) is not None

    def failures(self, requirement: str) -> int:
        """Return the number of consecutive failed plans."""
        return self._failures.get(requirement, 0)

    def duration(self, requirement: str) -> float:
        """Return the duration of the current back-off."""
        waits = self._failures.get(requirement, 0) - _FREE_FAILURES
        return min(self._first * 2 ** min(waits - 1, 32), self._longest) if waits > 0 else 0.0

    def remaining(self, requirement: str, now: float) -> float:
        """Return the remaining back-off for pods with these requirements."""
        return max(self._until.get(requirement, now) - now, 0.0)

    def next(self, now: float) -> float | None:
        """Return when the next back-off ends; None if there is none."""
        return min((until for until in self._until.values() if until > now), default=None)

    def ended(self, now: float) -> bool:
        """Return whether a back-off has ended since the last call."""
        over = [requirement for requirement, until in self._until.items() if until <= now]
        for requirement in over:
            del self._until[requirement]
        return bool(over)

    def max_plans(self, seconds: float) -> int:
        """Return the maximum number of plans within a duration, for pods that never get a node.

        >>> backoff = PurchaseBackoff(first=60, longest=1800)
        >>> backoff.max_plans(3600), backoff.max_plans(24 * 3600)
        (8, 54)
        """
        plans, at, wait = 1 + _FREE_FAILURES, self._first, self._first
        while at <= seconds:
            plans += 1
            wait = min(2 * wait, self._longest)
            at += wait
        return plans
