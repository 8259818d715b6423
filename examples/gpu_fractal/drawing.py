"""The types that all backends share: the size of a picture, the mapping of counts to colours, and the backend.

The *count* of a point is the number of steps after which it escapes, with a fraction, so that colours change smoothly;
it is negative for points that do not escape. The mapping to colours is fitted to a probe of a few points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gpu_fractal.locations import View
from gpu_fractal.schemes import SHADES

#: Points further than this from 0 have escaped. Larger than necessary (2), so that the fraction is smooth.
RADIUS: Final = 64.0
INSIDE: Final = -1.0

#: The maximum fraction of inside points in a probe, and its minimum spread of counts, for a picture worth drawing.
_MAX_INSIDE: Final = 0.3
_MIN_SPREAD: Final = 0.25


class Size(NamedTuple):
    """A picture's size in pixels; ``samples`` points are averaged in each direction of a pixel."""

    width: int
    height: int
    samples: int = 1


class Tones(NamedTuple):
    """Maps the logarithm of a count to a position on the palette, which is circular."""

    low: float
    scale: float
    phase: float

    def shade(self, count: float) -> int:
        """Return the palette index for a count; the last entry is for the inside."""
        if count < 0:
            return SHADES
        return int(((math.log(count + 1) - self.low) * self.scale + self.phase) * SHADES) % SHADES


class Backend(NamedTuple):
    """A drawing implementation and its device. Both functions can be called from any thread, one call at a time.

    ``counts`` returns the counts of all points of a small picture, row by row; ``draw`` returns the pixels of a whole
    picture. ``multiprocessors`` and ``memory`` (in bytes) describe a real GPU.
    """

    name: str
    device: str
    counts: Callable[[View, Size], Sequence[float]]
    draw: Callable[[View, Size, Tones, bytes], bytearray]
    multiprocessors: int = 0
    memory: int = 0


class UnavailableError(Exception):
    """Raised for a backend that is not available; the message says what is missing."""


def fit_tones(counts: Sequence[float], phase: float, rounds: float) -> Tones | None:
    """Return tones that spread a probe's counts over ``rounds`` cycles of the palette; None if the spread is small."""
    outside = sorted(math.log(count + 1) for count in counts if count >= 0)
    if len(outside) < len(counts) * (1 - _MAX_INSIDE):
        return None
    low, high = outside[len(outside) // 50], outside[-1 - len(outside) // 50]
    if high - low < _MIN_SPREAD:
        return None
    return Tones(low, rounds / (high - low), phase)
