"""A limit of a search in steps, which ends it at the same point on every machine."""

from __future__ import annotations

from allotment.packing.problem import KeepGoing
from allotment.time_limits import check_time


class StepLimit:
    """A `KeepGoing` that returns True ``count`` times, unless another one ends the search earlier.

    >>> limit = StepLimit(2, lambda: True)
    >>> [limit(), limit(), limit.exhausted], [limit(), limit.exhausted]
    ([True, True, False], [False, True])
    """

    def __init__(self, count: int, keep_going: KeepGoing) -> None:
        self.count = count
        self._left = count
        self._keep_going = keep_going
        self.exhausted = False

    def __call__(self) -> bool:
        check_time()
        self.exhausted = self._left <= 0
        self._left -= 1
        return not self.exhausted and self._keep_going()
