"""Chooses the backend: the container's simulated GPU, a real GPU if available, or the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from gpu_fractal.device_info import DeviceInfo, cuda_device_info, simulated_device_info
from gpu_fractal.drawing import Backend, UnavailableError
from gpu_fractal.on_cupy import cupy_backend
from gpu_fractal.on_numba import numba_backend
from gpu_fractal.on_numpy import numpy_backend
from gpu_fractal.on_python import python_backend
from gpu_fractal.on_simulation import GpuError, SimulatedGpu, simulated_backend
from gpu_fractal.settings import SettingError, Settings

_CPU: Final[dict[str, Callable[[], Backend]]] = {"numpy": numpy_backend, "python": python_backend}
_GPU: Final[dict[str, Callable[[], Backend]]] = {"cupy": cupy_backend, "numba": numba_backend}


def choose_backend(settings: Settings) -> tuple[Backend, DeviceInfo, SimulatedGpu | None]:
    """Return the requested or the best available backend, its device, and the simulated GPU, which must be closed.

    Raises UnavailableError if the requested backend is not available, SettingError if it does not exist, GpuError if
    the simulated GPU rejects the program.
    """
    backends = {**_GPU, **_CPU}
    name = settings.backend
    if name not in ("", "simulated", *backends):
        raise SettingError(f"BACKEND: expected one of {', '.join((*backends, 'simulated'))}, found {name!r}")
    if name == "simulated" or (settings.gpu and not name and not settings.force_cpu):
        return _simulated(settings)
    if name:
        return *_with_device_info(backends[name]()), None
    for create in (*(() if settings.force_cpu else _GPU.values()), *_CPU.values()):
        try:
            return *_with_device_info(create()), None
        except UnavailableError:
            continue
    raise AssertionError("the Python backend is always available")


def cpu_backend() -> Backend:
    """Return the best available backend without a GPU."""
    try:
        return numpy_backend()
    except UnavailableError:
        return python_backend()


def _simulated(settings: Settings) -> tuple[Backend, DeviceInfo, SimulatedGpu]:
    if not settings.gpu:
        raise UnavailableError("ALLOTMENT_GPU is not set: this container has no simulated GPU")
    gpu = SimulatedGpu(settings.gpu, settings.threads)
    try:
        gpu.call({"allocate": settings.memory})
    except GpuError:
        gpu.close()
        raise
    backend = simulated_backend(gpu, cpu_backend(), settings.work, settings.breadth)
    return backend, simulated_device_info(gpu.description), gpu


def _with_device_info(backend: Backend) -> tuple[Backend, DeviceInfo]:
    if backend.name in _CPU:
        return backend, DeviceInfo(backend.device, strategy="no GPU")
    return backend, cuda_device_info(backend.device, backend.multiprocessors, backend.memory, os.environ)
