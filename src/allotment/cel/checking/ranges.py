"""Ranges of sizes and costs: pairs (min, max) of unsigned 64-bit numbers with saturating arithmetic.

Upstream computes in uint64 and float64. ``wrap`` reproduces the operations in which upstream does not saturate, because
the wrapped values decide which expressions the API server accepts.
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
    """A number modulo 2^64."""
    return n & MAX


def fixed(n: int) -> Range:
    return (n, n)


def add(a: Range, b: Range) -> Range:
    low, high = a[0] + b[0], a[1] + b[1]
    return (min(MAX, low), min(MAX, high))


def multiply(a: Range, b: Range) -> Range:
    low, high = a[0] * b[0], a[1] * b[1]
    return (min(MAX, low), min(MAX, high))


def scale(a: Range, factor: float) -> Range:
    """Both ends multiplied by a factor and rounded up."""
    return (_scaled(a[0], factor), _scaled(a[1], factor))


def _scaled(n: int, factor: float) -> int:
    product = float(n) * factor
    return MAX if product >= _TWO_TO_64 else min(math.ceil(product), MAX)


def union(a: Range, b: Range) -> Range:
    """The smallest range that covers both."""
    return (min(b[0], a[0]), max(b[1], a[1]))


def ceil_div(n: int, d: int) -> int:
    """``n / d`` rounded up, in doubles; overflow gives 2^63, as Go's conversion to uint64 does on amd64."""
    quotient = math.ceil(float(n) / float(d))
    return 2**63 if quotient > MAX else quotient
