"""The pure Python backend, for environments without NumPy: limited resolution and step count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from gpu_fractal.drawing import INSIDE, RADIUS, Backend, Size, Tones
from gpu_fractal.locations import View

#: The maximum number of points of a picture; larger pictures are drawn with square blocks.
_POINTS: Final = 120 * 75
#: The maximum number of steps.
_LIMIT: Final = 400


def python_backend() -> Backend:
    """Return the backend for this machine's CPU; always available."""
    return Backend("python", "CPU, Python", _counts, _draw)


def _counts(view: View, size: Size) -> Sequence[float]:
    return list(_points(view, size.width, size.height))


def _draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
    coarse = math.ceil(math.sqrt(size.width * size.height / _POINTS)) if size.width * size.height > _POINTS else 1
    across, down = -(-size.width // coarse), -(-size.height // coarse)
    wider = view._replace(width=view.width * across * coarse / size.width)
    pixels = bytearray()
    row = bytearray()
    for number, count in enumerate(_points(wider, across, down), start=1):
        entry = 3 * tones.shade(count)
        row += palette[entry : entry + 3] * coarse
        if number % across == 0:
            pixels += row[: 3 * size.width] * min(coarse, size.height - len(pixels) // (3 * size.width))
            row.clear()
    return pixels


def _points(view: View, width: int, height: int) -> Iterator[float]:
    step = view.width / width
    limit = min(view.limit, _LIMIT)
    for row in range(height):
        y = view.y - (row - (height - 1) / 2) * step
        for column in range(width):
            yield _count(complex(view.x + (column - (width - 1) / 2) * step, y), limit)


def _count(c: complex, limit: int) -> float:
    z = c
    for steps in range(1, limit):
        z = z * z + c
        if abs(z) >= RADIUS:
            return steps + 2 - math.log2(math.log(abs(z)) / math.log(RADIUS))
    return INSIDE
