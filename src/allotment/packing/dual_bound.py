"""What prices on kinds prove: no packing costs less, in exact integers.

If no load of any sort is worth more than its bin costs, then all items together are worth no more than any packing of
them costs (linear programming duality). Prices need not be right: too high ones are scaled down until it is so (Farley,
"A note on bounding a class of linear programming problems", 1990), and sorts of which there are few pay for what is
worth more than they cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, gcd

from allotment.packing.problem import Problem


def proven(
    problem: Problem,
    counts: Sequence[int],
    values: Sequence[float],
    ceilings: Mapping[int, float],
    tolls: Mapping[str, float] | None = None,
) -> int:
    """A cost that no packing of ``counts`` goes below.

    ``values``: of one item by kind. ``ceilings``: by bin number, what no load of it is worth more than; a bin that is
    not named must be no better than a named one. ``tolls``: what a bin of a group costs on top, as its limit is scarce.
    """
    worth = [Fraction(value) if value > 0 else Fraction(0) for value in values]
    limits = dict(problem.group_limits)
    toll = {group: Fraction(price) for group, price in (tolls or {}).items() if price > 0 and group in limits}
    most = sum((limits[group] * price for group, price in toll.items()), Fraction(0))
    total = sum((count * value for count, value in zip(counts, worth, strict=True)), Fraction(0))
    scale: Fraction | None = None
    few: list[tuple[Fraction, Fraction, int]] = []
    for number, ceiling in ceilings.items():
        bin = problem.bin_types[number]
        if ceiling <= 0:
            continue
        price = bin.price + sum((toll.get(group, Fraction(0)) for group in bin.groups), Fraction(0))
        above = Fraction(ceiling)
        if bin.max_count is None:
            scale = price / above if scale is None else min(scale, price / above)
        else:
            few.append((price, above, bin.max_count))
    # A concave function of the scale, linear between the points where a scarce sort begins to be worth its price: it is
    # greatest at one of them. Without any unlimited sort nothing else ends it.
    points = sorted({price / above for price, above, _ in few})
    tried = [point for point in points if scale is None or point < scale]
    if scale is not None:
        tried.append(scale)
    best = Fraction(0)
    few.sort(key=lambda line: line[0] / line[1])
    slope, base, at = total, -most, 0
    for point in tried:
        while at < len(few) and few[at][0] / few[at][1] < point:
            price, above, number = few[at]
            slope -= number * above
            base += number * price
            at += 1
        best = max(best, point * slope + base)
    return payable(problem, ceil(best))


def payable(problem: Problem, cost: int) -> int:
    """The least cost not under this one that bins can come to: all prices are multiples of something.

    >>> from allotment.packing.problem import Bin
    >>> payable(Problem((), (), (Bin("a", 6, (), ()), Bin("b", 4, (), ()))), 5)
    6
    """
    step = gcd(*(bin.price for bin in problem.bin_types)) or 1
    return -(-cost // step) * step
