"""The Numba backend for NVIDIA GPUs: a kernel in Python computes the counts, NumPy the colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from gpu_fractal.drawing import INSIDE, RADIUS, Backend, Size, Tones, UnavailableError
from gpu_fractal.locations import View
from gpu_fractal.on_numpy import colourize

_BLOCK: Final = 256


def numba_backend() -> Backend:
    """Return the backend for the first GPU visible to the container. Raises UnavailableError."""
    try:
        import numpy as np
        from numba import cuda
    except ImportError:
        raise UnavailableError("Numba is not installed") from None
    if not cuda.is_available():
        raise UnavailableError("Numba finds no GPU")
    kernel = cuda.jit(_kernel(cuda))
    device = cuda.get_current_device()
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    memory = int(cuda.current_context().get_memory_info()[1])

    def counts_of(view: View, size: Size) -> Any:
        width, height = size.width * size.samples, size.height * size.samples
        step = view.width / width
        left, top = view.x - (width - 1) / 2 * step, view.y + (height - 1) / 2 * step
        counts = cuda.device_array(width * height, dtype=np.float32)
        kernel[-(-width * height // _BLOCK), _BLOCK](counts, left, top, step, width, view.limit)
        return counts.copy_to_host()

    def counts(view: View, size: Size) -> Sequence[float]:
        values: Sequence[float] = counts_of(view, size).tolist()
        return values

    def draw(view: View, size: Size, tones: Tones, palette: bytes) -> bytearray:
        return bytearray(colourize(np, counts_of(view, size), size, tones, palette).tobytes())

    return Backend("numba", name, counts, draw, int(device.MULTIPROCESSOR_COUNT), memory)


def _kernel(cuda: Any) -> Any:
    radius2 = RADIUS * RADIUS
    log_radius2 = math.log(radius2)

    def count_steps(counts: Any, left: float, top: float, step: float, across: int, limit: int) -> None:
        point = cuda.grid(1)
        if point >= counts.size:
            return
        cx = left + (point % across) * step
        cy = top - (point // across) * step
        x, y = cx, cy
        steps = 1
        while steps < limit and x * x + y * y < radius2:
            x, y = x * x - y * y + cx, 2 * x * y + cy
            steps += 1
        if steps < limit:
            counts[point] = steps + 1 - math.log2(math.log(x * x + y * y) / log_radius2)
        else:
            counts[point] = INSIDE

    return count_steps
