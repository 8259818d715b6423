"""What all ways of drawing have in common: the size of a picture, its colours, and how points are counted.

A point's *count* is after how many steps it escapes, with a fraction, so that colours change smoothly; it is negative
for points that do not. Which counts get which colours is fitted to the picture: a few points are looked at first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gpu_fractal.places import View
from gpu_fractal.schemes import SHADES

#: Points further than this from 0 have escaped. Larger than needed (2), so that the fraction is smooth.
RADIUS: Final = 64.0
INSIDE: Final = -1.0

#: What part of a probe may lie inside, and how many different shades it must have, for a picture to be worth drawing.
_MOST_INSIDE: Final = 0.3
_LEAST_SPREAD: Final = 0.25


class Size(NamedTuple):
    """A picture's size in pixels; ``samples`` points are averaged in each direction of a pixel."""

    width: int
    height: int
    samples: int = 1


class Tones(NamedTuple):
    """How counts become colours: from the logarithm of the count to a place on the palette, which is a circle."""

    low: float
    scale: float
    phase: float

    def shade(self, count: float) -> int:
        """The palette's entry for a count; the last one is the inside."""
        if count < 0:
            return SHADES
        return int(((math.log(count + 1) - self.low) * self.scale + self.phase) * SHADES) % SHADES


class Backend(NamedTuple):
    """A way to draw. ``device``: what it draws on. Both functions may be called from any thread, one at a time.

    ``counts`` gives the counts of all points of a small picture, row by row; ``draw`` the pixels of a whole one. Of a
    real GPU: its multiprocessors and its memory in bytes.
    """

    name: str
    device: str
    counts: Callable[[View, Size], Sequence[float]]
    draw: Callable[[View, Size, Tones, bytes], bytearray]
    multiprocessors: int = 0
    memory: int = 0


class Unavailable(Exception):
    """A way of drawing that cannot be used here; the text says what is missing."""


def tones(counts: Sequence[float], phase: float, rounds: float) -> Tones | None:
    """Tones that spread the counts of a probe over so many rounds of the palette; None if there is little to see."""
    outside = sorted(math.log(count + 1) for count in counts if count >= 0)
    if len(outside) < len(counts) * (1 - _MOST_INSIDE):
        return None
    low, high = outside[len(outside) // 50], outside[-1 - len(outside) // 50]
    if high - low < _LEAST_SPREAD:
        return None
    return Tones(low, rounds / (high - low), phase)
