"""The CuPy backend for NVIDIA GPUs: one kernel computes the counts, array operations the colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gpu_fractal.drawing import RADIUS, Backend, Size, Tones, UnavailableError
from gpu_fractal.locations import View
from gpu_fractal.on_numpy import colourize

_KERNEL: Final = """
    double cx = left + (i % across) * step, cy = top - (i / across) * step;
    double x = cx, y = cy, xx = x * x, yy = y * y;
    int steps = 1;
    while (steps < limit && xx + yy < radius * radius) {
        y = 2 * x * y + cy;
        x = xx - yy + cx;
        xx = x * x;
        yy = y * y;
        ++steps;
    }
    count = steps < limit ? steps + 1 - log2(log(xx + yy) / (2 * log(radius))) : -1;
"""


def cupy_backend() -> Backend:
    """Return the backend for the first GPU visible to the container. Raises UnavailableError."""
    try:
        import cupy
    except ImportError:
        raise UnavailableError("CuPy is not installed") from None
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(0)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise UnavailableError(f"CuPy finds no GPU: {error}") from None
    parameters = "float64 left, float64 top, float64 step, int64 across, int32 limit, float64 radius"
    kernel = cupy.ElementwiseKernel(parameters, "float32 count", _KERNEL, "count_steps")

    def counts_of(view: View, size: Size) -> Any:
        width, height = size.width * size.samples, size.height * size.samples
        step = view.width / width
        left, top = view.x - (width - 1) / 2 * step, view.y + (height - 1) / 2 * step
        counts = cupy.empty(width * height, dtype=cupy.float32)
        kernel(left, top, step, width, view.limit, RADIUS, counts)
        return counts

    def counts(view: View, size: Size) -> Sequence[float]:
        values: Sequence[float] = counts_of(view, size).get().tolist()
        return values

    def draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
        return bytearray(colourize(cupy, counts_of(view, size), size, tones, palette).get().tobytes())

    name, count, memory = (properties[key] for key in ("name", "multiProcessorCount", "totalGlobalMem"))
    return Backend("cupy", name.decode(), counts, draw, int(count), int(memory))
