"""Which way of drawing is taken: a simulated GPU that was given, a real one that is there, else the processor."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from gpu_fractal.about import About, about_cuda, about_simulated
from gpu_fractal.drawing import Backend, Unavailable
from gpu_fractal.on_cupy import cupy_backend
from gpu_fractal.on_numba import numba_backend
from gpu_fractal.on_numpy import numpy_backend
from gpu_fractal.on_python import python_backend
from gpu_fractal.on_simulation import Refused, SimulatedGpu, simulated_backend
from gpu_fractal.settings import Settings, Unreadable

_CPU: Final[dict[str, Callable[[], Backend]]] = {"numpy": numpy_backend, "python": python_backend}
_GPU: Final[dict[str, Callable[[], Backend]]] = {"cupy": cupy_backend, "numba": numba_backend}


def choose(settings: Settings) -> tuple[Backend, About, SimulatedGpu | None]:
    """The best way of drawing there is, or the one asked for; what it is; and the simulated GPU, to be closed.

    Raises Unavailable if that one is not there, Unreadable if there is no such, Refused if the simulated GPU that was
    given does not let the program in.
    """
    known = {**_GPU, **_CPU}
    name = settings.backend
    if name not in ("", "simulated", *known):
        raise Unreadable(f"BACKEND: wanted one of {', '.join((*known, 'simulated'))}, found {name!r}")
    if name == "simulated" or (settings.gpu and not name and not settings.force_cpu):
        return _simulated(settings)
    if name:
        return *_described(known[name]()), None
    for make in (*(() if settings.force_cpu else _GPU.values()), *_CPU.values()):
        try:
            return *_described(make()), None
        except Unavailable:
            continue
    raise AssertionError("Python is always there")


def processor() -> Backend:
    """The best way of drawing without a GPU."""
    try:
        return numpy_backend()
    except Unavailable:
        return python_backend()


def _simulated(settings: Settings) -> tuple[Backend, About, SimulatedGpu]:
    if not settings.gpu:
        raise Unavailable("ALLOTMENT_GPU is not set: this container has no simulated GPU")
    gpu = SimulatedGpu(settings.gpu, settings.threads)
    try:
        gpu.ask({"allocate": settings.memory})
    except Refused:
        gpu.close()
        raise
    backend = simulated_backend(gpu, processor(), settings.work, settings.breadth)
    return backend, about_simulated(gpu.described), gpu


def _described(backend: Backend) -> tuple[Backend, About]:
    if backend.name in _CPU:
        return backend, About(backend.device, strategy="no GPU")
    return backend, about_cuda(backend.device, backend.multiprocessors, backend.memory, os.environ)
