"""An exact integer lower bound from prices of item kinds.

If no load of any bin type is worth more than its bin costs, then all items together are worth no more than any packing
of them costs (linear programming duality). Prices that are too high are scaled down until this holds (Farley, "A note
on bounding a class of linear programming problems", 1990). The surplus value of types with a maximum count is deducted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, gcd

from allotment.packing.problem import Problem


def dual_bound(
    problem: Problem,
    counts: Sequence[int],
    values: Sequence[float],
    value_bounds: Mapping[int, float],
    group_prices: Mapping[str, float] | None = None,
) -> int:
    """A lower bound on the cost of any packing of ``counts``.

    ``values``: of one item by kind. ``value_bounds``: by type number, an upper bound on the value of a load; types
    without one must be dominated by a type with one. ``group_prices``: the dual price of each group's limit.
    """
    worth = [Fraction(value) if value > 0 else Fraction(0) for value in values]
    limits = dict(problem.group_limits)
    surcharges = {
        group: Fraction(price) for group, price in (group_prices or {}).items() if price > 0 and group in limits
    }
    paid = sum((limits[group] * price for group, price in surcharges.items()), Fraction(0))
    total = sum((count * value for count, value in zip(counts, worth, strict=True)), Fraction(0))
    scale: Fraction | None = None
    limited: list[tuple[Fraction, Fraction, int]] = []
    for number, value_bound in value_bounds.items():
        bin_type = problem.bin_types[number]
        if value_bound <= 0:
            continue
        price = bin_type.price + sum((surcharges.get(group, Fraction(0)) for group in bin_type.groups), Fraction(0))
        value = Fraction(value_bound)
        if bin_type.max_count is None:
            scale = price / value if scale is None else min(scale, price / value)
        else:
            limited.append((price, value, bin_type.max_count))
    # A concave function of the scale, linear between the points where the value of a limited type reaches its price:
    # its maximum is at one of them. Unlimited types bound the scale.
    points = sorted({price / value for price, value, _ in limited})
    candidates = [point for point in points if scale is None or point < scale]
    if scale is not None:
        candidates.append(scale)
    best = Fraction(0)
    limited.sort(key=lambda line: line[0] / line[1])
    slope, base, at = total, -paid, 0
    for point in candidates:
        while at < len(limited) and limited[at][0] / limited[at][1] < point:
            price, value, number = limited[at]
            slope -= number * value
            base += number * price
            at += 1
        best = max(best, point * slope + base)
    return round_up_to_prices(problem, ceil(best))


def round_up_to_prices(problem: Problem, cost: int) -> int:
    """The cost rounded up to a multiple of the greatest common divisor of all prices.

    >>> from allotment.packing.problem import BinType
    >>> round_up_to_prices(Problem((), (), (BinType("a", 6, (), ()), BinType("b", 4, (), ()))), 5)
    6
    """
    step = gcd(*(bin_type.price for bin_type in problem.bin_types)) or 1
    return -(-cost // step) * step
