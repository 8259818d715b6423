"""What the application is told by its environment."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from gpu_fractal.drawing import Size


class Settings(NamedTuple):
    """How to draw and serve. ``backend`` is the name of a way of drawing, empty for the best there is.

    ``work`` (seconds of one multiprocessor), ``breadth`` (multiprocessors) and ``memory`` (bytes) are what a picture
    costs on a simulated GPU.
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


class Unreadable(Exception):
    """A variable has a value that cannot be used; the text names both."""


#: Variables, as a list of them reads in --help.
VARIABLES = """\
HOST, PORT       where to listen (127.0.0.1, 5000)
INTERVAL         seconds from one picture to the next (10); 0: without a pause
WIDTH, HEIGHT    of the picture in pixels (800, 500)
SAMPLES          points averaged in each direction of a pixel (2; with ALLOTMENT_GPU 1)
SEED             a number; the same one gives the same pictures (any)
FORCE_CPU        true: leave GPUs alone (false)
BACKEND          cupy, numba, numpy, python or simulated (the best there is)
ALLOTMENT_GPU    a simulated GPU, as its driver gives it to containers
GPU_WORK         seconds that a picture takes one multiprocessor of a simulated GPU (16)
GPU_BREADTH      how many multiprocessors a picture can use at once (32)
GPU_MEMORY_MIB   memory that it takes there (256)"""


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings that an environment asks for. Raises Unreadable."""
    plain = Settings()
    # A simulated GPU is fast, the processor that draws for it is not.
    samples = 1 if environment.get("ALLOTMENT_GPU") else plain.size.samples
    return Settings(
        host=environment.get("HOST") or plain.host,
        port=int(_number(environment, "PORT", plain.port, 0, 65535)),
        interval=_number(environment, "INTERVAL", plain.interval, 0, 86_400),
        seed=int(_number(environment, "SEED", random.randrange(1 << 31), 0, 1 << 63)),
        size=Size(
            int(_number(environment, "WIDTH", plain.size.width, 32, 8192)),
            int(_number(environment, "HEIGHT", plain.size.height, 32, 8192)),
            int(_number(environment, "SAMPLES", samples, 1, 4)),
        ),
        force_cpu=environment.get("FORCE_CPU", "").strip().lower() in ("1", "true", "yes", "on"),
        backend=environment.get("BACKEND", "").strip().lower(),
        gpu=environment.get("ALLOTMENT_GPU", ""),
        work=_number(environment, "GPU_WORK", plain.work, 0.001, 1e6),
        breadth=int(_number(environment, "GPU_BREADTH", plain.breadth, 1, 10_000)),
        memory=int(_number(environment, "GPU_MEMORY_MIB", plain.memory >> 20, 1, 1 << 20)) << 20,
        threads=_threads(environment),
        owner=environment.get("POD_NAME") or environment.get("HOSTNAME", ""),
    )


def _number(environment: Mapping[str, str], name: str, default: float, least: float, most: float) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise Unreadable(f"{name}: wanted a number, found {text!r}") from None
    if not least <= value <= most:
        raise Unreadable(f"{name}: wanted {least:g} to {most:g}, found {text}")
    return value


def _threads(environment: Mapping[str, str]) -> int | None:
    """The limit that a client of MPS sets itself; CUDA's own variable."""
    if not environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"):
        return None
    return round(_number(environment, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 100, 1, 100))
