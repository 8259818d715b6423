"""The NumPy backend: processes bands of points that fit the CPU cache, a few steps at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpu_fractal.drawing import INSIDE, RADIUS, Backend, Size, Tones, UnavailableError
from gpu_fractal.locations import View
from gpu_fractal.schemes import SHADES

#: Points per band: half a dozen arrays of this size fit a second-level cache.
_BAND: Final = 1 << 13
#: Steps between two checks for escaped points; these steps are then repeated one by one for the escaped points.
_STRIDE: Final = 12


def numpy_backend() -> Backend:
    """Return the backend for this machine's CPU. Raises UnavailableError."""
    try:
        import numpy as np
    except ImportError:
        raise UnavailableError("NumPy is not installed") from None

    def counts_of(view: View, size: Size) -> Any:
        width, height = size.width * size.samples, size.height * size.samples
        step = view.width / width
        xs = view.x + (np.arange(width) - (width - 1) / 2) * step
        ys = view.y - (np.arange(height) - (height - 1) / 2) * step
        counts = np.empty(width * height, dtype=np.float32)
        rows = max(_BAND // width, 1)
        for top in range(0, height, rows):
            band = ys[top : top + rows]
            cx, cy = np.tile(xs, len(band)), np.repeat(band, width)
            counts[top * width : top * width + len(cx)] = _escape(np, cx, cy, view.limit)
        return counts

    def counts(view: View, size: Size) -> Sequence[float]:
        values: Sequence[float] = counts_of(view, size).tolist()
        return values

    def draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
        return bytearray(colourize(np, counts_of(view, size), size, tones, palette).tobytes())

    return Backend("numpy", "CPU, NumPy", counts, draw)


def colourize(np: Any, counts: Any, size: Size, tones: Tones, palette: bytes) -> Any:
    """Return the pixels of counts, each the average of its samples. ``np`` can also be CuPy."""
    colours = np.frombuffer(palette, dtype=np.uint8).reshape(-1, 3)
    logs = np.log(np.maximum(counts, 0) + 1)
    shades = (((logs - tones.low) * tones.scale + tones.phase) * SHADES).astype(np.int32) % SHADES
    pixels = colours[np.where(counts < 0, SHADES, shades)]
    if size.samples > 1:
        shape = (size.height, size.samples, size.width, size.samples, 3)
        pixels = np.rint(pixels.reshape(shape).mean(axis=(1, 3), dtype=np.float32)).astype(np.uint8)
    return pixels


def _escape(np: Any, cx: Any, cy: Any, limit: int) -> Any:
    """Return the counts of points."""
    counts = np.full(len(cx), INSIDE, dtype=np.float32)
    index = np.flatnonzero(~_known_inside(cx, cy))
    cx, cy = cx[index], cy[index]
    x, y = cx.copy(), cy.copy()
    # Escaped points overflow until the next check.
    with np.errstate(over="ignore", invalid="ignore"):
        for steps_done in range(1, limit, _STRIDE):
            begin_x, begin_y = x.copy(), y.copy()
            for _ in range(_STRIDE):
                x, y = _step(np, x, y, cx, cy)
            escaped = ~(x * x + y * y < RADIUS * RADIUS)
            if not escaped.any():
                continue
            counts[index[escaped]] = _exact_counts(
                np, begin_x[escaped], begin_y[escaped], cx[escaped], cy[escaped], steps_done
            )
            remaining = ~escaped
            index, x, y, cx, cy = index[remaining], x[remaining], y[remaining], cx[remaining], cy[remaining]
            if not len(index):
                break
    return counts


def _step(np: Any, x: Any, y: Any, cx: Any, cy: Any) -> tuple[Any, Any]:
    """Return all points after one step; modifies ``y``."""
    difference = x * x
    difference -= y * y
    difference += cx
    y *= x
    y += y
    y += cy
    return difference, y


def _exact_counts(np: Any, x: Any, y: Any, cx: Any, cy: Any, steps_done: int) -> Any:
    """Return the counts of points that escape within the next stride."""
    counts = np.zeros(len(x), dtype=np.float32)
    for steps in range(steps_done + 1, steps_done + _STRIDE + 1):
        x, y = _step(np, x, y, cx, cy)
        distance = x * x + y * y
        escaped = (counts == 0) & (distance >= RADIUS * RADIUS)
        counts[escaped] = steps + 1 - np.log2(np.log(distance[escaped]) / (2 * np.log(RADIUS)))
    return counts


def _known_inside(cx: Any, cy: Any) -> Any:
    """Return which points are in the two largest areas, the cardioid and the disc to its left, which need no steps."""
    y2 = cy * cy
    from_heart = (cx - 0.25) ** 2 + y2
    return (from_heart * (from_heart + cx - 0.25) <= 0.25 * y2) | ((cx + 1) ** 2 + y2 <= 0.0625)
