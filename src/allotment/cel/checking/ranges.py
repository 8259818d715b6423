"""Ranges of sizes and costs: pairs (least, most) of unsigned 64-bit numbers that saturate instead of wrapping.

Upstream computes in uint64 and float64; where it forgets to saturate the wrapped value decides what the API server
accepts, so ``wrap`` is part of the arithmetic too.
"""

from __future__ import annotations

import math
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]

MAX = 2**64 - 1
_TWO_TO_64 = 2.0**64

ZERO: Range = (0, 0)
ONE: Range = (1, 1)
UNKNOWN: Range = (0, MAX)


def wrap(n: int) -> int:
    """A number as uint64 arithmetic leaves it."""
    return n & MAX


def fixed(n: int) -> Range:
    """Exactly ``n``."""
    return (n, n)


def add(a: Range, b: Range) -> Range:
    """The sum."""
    low, high = a[0] + b[0], a[1] + b[1]
    return (min(MAX, low), min(MAX, high))


def multiply(a: Range, b: Range) -> Range:
    """The product."""
    low, high = a[0] * b[0], a[1] * b[1]
    return (min(MAX, low), min(MAX, high))


def scale(a: Range, factor: float) -> Range:
    """Both ends times a factor, rounded up."""
    return (_scaled(a[0], factor), _scaled(a[1], factor))


def _scaled(n: int, factor: float) -> int:
    product = float(n) * factor
    return MAX if product >= _TWO_TO_64 else min(math.ceil(product), MAX)


def union(a: Range, b: Range) -> Range:
    """The smallest range that covers both."""
    return (min(b[0], a[0]), max(b[1], a[1]))


def ceil_div(n: int, d: int) -> int:
    """``n / d`` rounded up, in doubles; what does not fit becomes 2^63, as the conversion on amd64 has it."""
    quotient = math.ceil(float(n) / float(d))
    return 2**63 if quotient > MAX else quotient
