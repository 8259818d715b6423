"""What is out of stock: not asked for during a while that doubles each time, so that others are tried at once."""

from __future__ import annotations

from random import Random

from allotment.cluster.backoff import Backoff

#: Key of the type, zone, capacity type; an empty zone stands for any.
Offering = tuple[str, str, str]
#: A type that was to be had again for so many times its longest wait starts anew.
_RESET_FACTOR = 2.0


class UnavailableOfferings:
    """Offerings that could not be had. All times are of one scale, in seconds."""

    def __init__(self, random: Random, first: float, longest: float) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._until: dict[Offering, float] = {}
        self._backoffs: dict[Offering, Backoff] = {}
        self._last_check = float("-inf")

    def unavailable(self, offering: Offering, now: float) -> float:
        """It could not be had; how long it is left alone."""
        until = self._until.get(offering)
        if until is not None and until > now:  # several machines of one plan met the same shortage
            return until - now
        if until is not None and now - until > _RESET_FACTOR * self._longest:
            self._backoffs.pop(offering, None)
        backoff = self._backoffs.get(offering)
        if backoff is None:
            # A wait is chance from its half on: twice as much is never below what was asked for.
            backoff = self._backoffs[offering] = Backoff(self._random, first=2 * self._first, longest=self._longest)
        wait = backoff.next()
        self._until[offering] = now + wait
        return wait

    def refused(self, offering: Offering, now: float) -> float:
        """Asking again soon would not help: the cloud will not, or what it gave was of no use."""
        self._until[offering] = now + self._longest
        return self._longest

    def available(self, offering: Offering) -> None:
        """A machine of it came."""
        self._until.pop(offering, None)
        self._backoffs.pop(offering, None)

    def current(self, now: float) -> tuple[Offering, ...]:
        """Those that must not be asked for."""
        return tuple(sorted(offering for offering, until in self._until.items() if until > now))

    def ended(self, now: float) -> bool:
        """Whether something may be asked for again that could not when this was last asked."""
        before, self._last_check = self._last_check, now
        return any(before < until <= now for until in self._until.values())

    def next(self, now: float) -> float | None:
        """When the first of them may be asked for again; None if there is none."""
        return min((until for until in self._until.values() if until > now), default=None)
