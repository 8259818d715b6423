"""The settings of the application, from environment variables."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from gpu_fractal.drawing import Size


class Settings(NamedTuple):
    """Settings for drawing and serving. ``backend`` is the name of a backend, empty for the best available.

    ``work`` (seconds of one multiprocessor), ``breadth`` (multiprocessors) and ``memory`` (bytes) are the cost of a
    picture on a simulated GPU.
    """

    host: str = "127.0.0.1"
    port: int = 5000
    interval: float = 10.0
    seed: int = 0
    size: Size = Size(800, 500, 2)
    force_cpu: bool = False
    backend: str = ""
    gpu: str = ""
    work: float = 16.0
    breadth: int = 32
    memory: int = 256 << 20
    threads: int | None = None
    owner: str = ""


class SettingError(Exception):
    """Raised for a variable with an invalid value; the message contains both."""


#: The variables, for --help.
VARIABLES = """\
HOST, PORT       listen address and port (127.0.0.1, 5000)
INTERVAL         seconds from one picture to the next (10); 0: no pause
WIDTH, HEIGHT    size of the picture in pixels (800, 500)
SAMPLES          points averaged in each direction of a pixel (2; 1 with ALLOTMENT_GPU)
SEED             random seed; the same seed produces the same pictures (random)
FORCE_CPU        true: do not use GPUs (false)
BACKEND          cupy, numba, numpy, python or simulated (the best available)
ALLOTMENT_GPU    simulated GPU of the container; set by its driver
GPU_WORK         seconds for a picture on one multiprocessor of a simulated GPU (16)
GPU_BREADTH      multiprocessors that a picture can use at the same time (32)
GPU_MEMORY_MIB   memory for a picture on a simulated GPU in MiB (256)"""


def settings_of(environment: Mapping[str, str]) -> Settings:
    """Return the settings in an environment. Raises SettingError."""
    defaults = Settings()
    # A simulated GPU is fast, but the CPU that draws for it is not.
    samples = 1 if environment.get("ALLOTMENT_GPU") else defaults.size.samples
    return Settings(
        host=environment.get("HOST") or defaults.host,
        port=int(_number(environment, "PORT", defaults.port, 0, 65535)),
        interval=_number(environment, "INTERVAL", defaults.interval, 0, 86_400),
        seed=int(_number(environment, "SEED", random.randrange(1 << 31), 0, 1 << 63)),
        size=Size(
            int(_number(environment, "WIDTH", defaults.size.width, 32, 8192)),
            int(_number(environment, "HEIGHT", defaults.size.height, 32, 8192)),
            int(_number(environment, "SAMPLES", samples, 1, 4)),
        ),
        force_cpu=environment.get("FORCE_CPU", "").strip().lower() in ("1", "true", "yes", "on"),
        backend=environment.get("BACKEND", "").strip().lower(),
        gpu=environment.get("ALLOTMENT_GPU", ""),
        work=_number(environment, "GPU_WORK", defaults.work, 0.001, 1e6),
        breadth=int(_number(environment, "GPU_BREADTH", defaults.breadth, 1, 10_000)),
        memory=int(_number(environment, "GPU_MEMORY_MIB", defaults.memory >> 20, 1, 1 << 20)) << 20,
        threads=_threads(environment),
        owner=environment.get("POD_NAME") or environment.get("HOSTNAME", ""),
    )


def _number(environment: Mapping[str, str], name: str, default: float, minimum: float, maximum: float) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise SettingError(f"{name}: expected a number, found {text!r}") from None
    if not minimum <= value <= maximum:
        raise SettingError(f"{name}: expected {minimum:g} to {maximum:g}, found {text}")
    return value


def _threads(environment: Mapping[str, str]) -> int | None:
    """Return the thread limit of an MPS client, from CUDA's own variable."""
    if not environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"):
        return None
    return round(_number(environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 100, 1, 100))
