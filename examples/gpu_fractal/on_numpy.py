"""Drawing with NumPy: bands of points that fit the processor's cache, a few steps at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpu_fractal.drawing import INSIDE, RADIUS, Backend, Size, Tones, Unavailable
from gpu_fractal.places import View
from gpu_fractal.schemes import SHADES

#: Points that are worked on together: half a dozen arrays of them stay in a second-level cache.
_BAND: Final = 1 << 13
#: Steps between two looks at who has escaped; those are then taken back and done again one by one.
_STRIDE: Final = 12


def numpy_backend() -> Backend:
    """NumPy on this machine's processor. Raises Unavailable."""
    try:
        import numpy as np
    except ImportError:
        raise Unavailable("NumPy is not installed") from None

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
        found: Sequence[float] = counts_of(view, size).tolist()
        return found

    def draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
        return bytearray(painted(np, counts_of(view, size), size, tones, palette).tobytes())

    return Backend("numpy", "CPU, NumPy", counts, draw)


def painted(np: Any, counts: Any, size: Size, tones: Tones, palette: bytes) -> Any:
    """The pixels of counts, with the samples of each averaged. ``np`` may be CuPy, which has the same functions."""
    colours = np.frombuffer(palette, dtype=np.uint8).reshape(-1, 3)
    logs = np.log(np.maximum(counts, 0) + 1)
    shades = (((logs - tones.low) * tones.scale + tones.phase) * SHADES).astype(np.int32) % SHADES
    pixels = colours[np.where(counts < 0, SHADES, shades)]
    if size.samples > 1:
        shape = (size.height, size.samples, size.width, size.samples, 3)
        pixels = np.rint(pixels.reshape(shape).mean(axis=(1, 3), dtype=np.float32)).astype(np.uint8)
    return pixels


def _escape(np: Any, cx: Any, cy: Any, limit: int) -> Any:
    """The counts of points."""
    counts = np.full(len(cx), INSIDE, dtype=np.float32)
    index = np.flatnonzero(~_surely_inside(cx, cy))
    cx, cy = cx[index], cy[index]
    x, y = cx.copy(), cy.copy()
    # What has escaped grows beyond all numbers until it is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        for done in range(1, limit, _STRIDE):
            begin_x, begin_y = x.copy(), y.copy()
            for _ in range(_STRIDE):
                x, y = _step(np, x, y, cx, cy)
            gone = ~(x * x + y * y < RADIUS * RADIUS)
            if not gone.any():
                continue
            counts[index[gone]] = _exactly(np, begin_x[gone], begin_y[gone], cx[gone], cy[gone], done)
            stays = ~gone
            index, x, y, cx, cy = index[stays], x[stays], y[stays], cx[stays], cy[stays]
            if not len(index):
                break
    return counts


def _step(np: Any, x: Any, y: Any, cx: Any, cy: Any) -> tuple[Any, Any]:
    """One step of all points; their arrays are used again."""
    difference = x * x
    difference -= y * y
    difference += cx
    y *= x
    y += y
    y += cy
    return difference, y


def _exactly(np: Any, x: Any, y: Any, cx: Any, cy: Any, done: int) -> Any:
    """The counts of points that escape within the next stride."""
    counts = np.zeros(len(x), dtype=np.float32)
    for steps in range(done + 1, done + _STRIDE + 1):
        x, y = _step(np, x, y, cx, cy)
        distance = x * x + y * y
        now = (counts == 0) & (distance >= RADIUS * RADIUS)
        counts[now] = steps + 1 - np.log2(np.log(distance[now]) / (2 * np.log(RADIUS)))
    return counts


def _surely_inside(cx: Any, cy: Any) -> Any:
    """The two largest areas, which need no steps: the heart and the disc to its left."""
    y2 = cy * cy
    from_heart = (cx - 0.25) ** 2 + y2
    return (from_heart * (from_heart + cx - 0.25) <= 0.25 * y2) | ((cx + 1) ** 2 + y2 <= 0.0625)
