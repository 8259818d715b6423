"""What no packing can cost less than."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.packing.problem import Problem, needed


def lower_bound(problem: Problem, left: Sequence[tuple[int, int]] = ()) -> int:
    """Of all items without those that are left, by rows alone; never above the cost of the best packing."""
    from allotment.packing.assignment import assigned, ceiling
    from allotment.packing.proof import proven
    from allotment.packing.sorts import dominated, sort_of

    counts = needed(problem, left)
    sorts = [sort_of(problem, number) for number in range(len(problem.bins))]
    gone = dominated(sorts)
    sorts = [sort for sort in sorts if sort.number not in gone and len(sort.kinds)]
    prices = assigned(problem, counts, sorts)
    ceilings = {sort.number: ceiling(sort, prices.items, prices.rows[sort.number]) for sort in sorts}
    return proven(problem, counts, [float(value) for value in prices.items], ceilings, prices.tolls)
