"""Back-off for unavailable offerings, doubling each time, so that plans use others meanwhile."""

from __future__ import annotations

from random import Random

from allotment.cluster.backoff import Backoff

#: Type, zone and capacity type; an empty zone means any.
Offering = tuple[str, str, str]
#: The back-off restarts at its first value after this many times its maximum without a shortage.
_RESET_FACTOR = 2.0


class UnavailableOfferings:
    """Offerings in back-off. All times are seconds of one clock."""

    def __init__(self, random: Random, first: float, longest: float) -> None:
        self._random = random
        self._first = first
        self._longest = longest
        self._until: dict[Offering, float] = {}
        self._backoffs: dict[Offering, Backoff] = {}
        self._last_check = float("-inf")

    def unavailable(self, offering: Offering, now: float) -> float:
        """Record that it was unavailable; return the back-off."""
        until = self._until.get(offering)
        if until is not None and until > now:  # several machines of one plan hit the same shortage
            return until - now
        if until is not None and now - until > _RESET_FACTOR * self._longest:
            self._backoffs.pop(offering, None)
        backoff = self._backoffs.get(offering)
        if backoff is None:
            # The back-off has a jitter of one half: twice the value is never below the configured one.
            backoff = self._backoffs[offering] = Backoff(self._random, first=2 * self._first, longest=self._longest)
        wait = backoff.next()
        self._until[offering] = now + wait
        return wait

    def refused(self, offering: Offering, now: float) -> float:
        """Record a permanent rejection or a useless machine with the maximum back-off."""
        self._until[offering] = now + self._longest
        return self._longest

    def available(self, offering: Offering) -> None:
        """Reset the back-off, because a machine was provisioned."""
        self._until.pop(offering, None)
        self._backoffs.pop(offering, None)

    def current(self, now: float) -> tuple[Offering, ...]:
        """Return the offerings in back-off."""
        return tuple(sorted(offering for offering, until in self._until.items() if until > now))

    def ended(self, now: float) -> bool:
        """Return whether a back-off has ended since the last call."""
        before, self._last_check = self._last_check, now
        return any(before < until <= now for until in self._until.values())

    def next(self, now: float) -> float | None:
        """Return when the next back-off ends; None if there is none."""
        return min((until for until in self._until.values() if until > now), default=None)
