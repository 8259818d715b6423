"""What no packing can cost less than."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.packing.problem import KeepGoing, Problem, needed
from allotment.packing.simple_bound import simple_bound

#: Items times sorts up to which new loads are looked for although nobody said for how long.
_SMALL, _ROUNDS = 20_000, 40


def lower_bound(problem: Problem, left: Sequence[tuple[int, int]] = (), *, keep_going: KeepGoing | None = None) -> int:
    """Of all items without those that are left, by rows alone; never above the cost of the best packing.

    ``keep_going``: for how long to look for a better one; None: a moment. Without numpy and HiGHS a weaker one.
    """
    counts = needed(problem, left)
    weak = simple_bound(problem, counts)
    try:
        from allotment.packing.search import bounded
    except ImportError:
        return weak
    rounds = 1 << 30 if keep_going is not None else _ROUNDS if sum(counts) * len(problem.bins) <= _SMALL else 0
    return max(weak, bounded(problem, counts, rounds, keep_going or (lambda: True)))
