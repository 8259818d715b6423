"""The limits of a search for machines: a number of steps by the number of pods, or a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from math import inf
from time import monotonic
from typing import Final

from allotment.model.meta import Object
from allotment.model.workload_pods import pods_of

#: Maximum number of pods, and the steps for improving a plan of that size: about 1, 3 and 10 seconds. Most plans are
#: proven optimal earlier.
_STEPS: Final = ((20, 1_000), (200, 3_000))
_MOST_STEPS: Final = 6_000


def steps_for(values: Sequence[Object]) -> int:
    """Return the limit in steps by the number of pods."""
    pods = 0
    for value in values:
        pods += sum(1 for _ in islice(pods_of(value, limit=_STEPS[-1][0] + 1), _STEPS[-1][0] + 1))
        if pods > _STEPS[-1][0]:
            return _MOST_STEPS
    return next(steps for most, steps in _STEPS if pods <= most)


class SearchControl:
    """A time limit of searches, if there is one. ``stop`` ends them as well; ``progress`` and ``show`` do nothing.

    ``seconds``: of each search. ``clock``: returns the time in seconds.
    """

    def __init__(self, seconds: float = inf, clock: Callable[[], float] = monotonic) -> None:
        self.seconds = seconds
        self.stopped = False
        self._clock = clock
        self.started_at = clock()
        self._ends = self.started_at + seconds

    def keep_going(self) -> bool:
        """Return whether time is left."""
        return not self.stopped and self._clock() < self._ends

    def stop(self) -> None:
        """Stop the search; the best plan so far is the result."""
        self.stopped = True

    def restart(self) -> None:
        """Start the time limit again for another search."""
        self._ends = self._clock() + self.seconds

    def progress(self, cost: int, bound: int) -> None:
        """Report the best plan's cost and the bound, in millionths of a dollar per hour."""

    def show(self, text: str) -> None:
        """Report what is searched."""
