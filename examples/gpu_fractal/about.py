"""What a picture says about the device that drew it: which, how much of it, and how it is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_INTERVALS: Final = ("default", "short", "medium", "long")


class About(NamedTuple):
    """Three short texts, as they stand on the picture."""

    device: str
    share: str = ""
    strategy: str = ""


def about_simulated(described: Mapping[str, Any]) -> About:
    """Of a simulated GPU, by what it says of itself.

    >>> about_simulated({"product": "NVIDIA T4", "multiprocessors": 40, "memory": 15 << 30, "strategy": "exclusive"})
    About(device='NVIDIA T4', share='40 multiprocessors, 15 GiB', strategy='whole GPU')
    """
    count, memory, strategy = described["multiprocessors"], described["memory"], described["strategy"]
    threads, limit = described.get("threads"), described.get("memory_limit")
    share = f"{count} multiprocessors, {gibibytes(limit or memory)}"
    if threads is not None:
        share = f"{threads} % of {share}"
    words = {
        "mps": "MPS, side by side",
        "mig": f"MIG {described.get('profile', '')}".rstrip(),
        "time-slicing": f"time-slicing, {_INTERVALS[described.get('interval', 0)]} turns",
    }
    return About(described["product"], share, words.get(strategy, "whole GPU"))


def about_cuda(name: str, multiprocessors: int, memory: int, environment: Mapping[str, str]) -> About:
    """Of a real GPU. That others take turns on it cannot be seen from inside a container."""
    share = f"{multiprocessors} multiprocessors, {gibibytes(memory)}"
    threads = environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    if " MIG " in name:
        return About(name, share, f"MIG {name.rpartition(' MIG ')[2]}")
    if "CUDA_MPS_PIPE_DIRECTORY" in environment or threads:
        return About(name, f"{threads} % of {share}" if threads else share, "MPS, side by side")
    return About(name, share, "GPU")


def gibibytes(size: int) -> str:
    """A size as people say it.

    >>> gibibytes(5 << 30), gibibytes(4864 << 20)
    ('5 GiB', '4.8 GiB')
    """
    return f"{size / (1 << 30):.1f} GiB".replace(".0 ", " ")
