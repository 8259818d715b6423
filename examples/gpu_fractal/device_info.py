"""Describes the device that draws the pictures: its name, its share and how it is shared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_INTERVALS: Final = ("default", "short", "medium", "long")


class DeviceInfo(NamedTuple):
    """Three short texts for the caption of a picture."""

    device: str
    share: str = ""
    strategy: str = ""


def simulated_device_info(description: Mapping[str, Any]) -> DeviceInfo:
    """Return the description of a simulated GPU from its own data.

    >>> simulated_device_info(
    ...     {"product": "NVIDIA T4", "multiprocessors": 40, "memory": 15 << 30, "strategy": "exclusive"}
    ... )
    DeviceInfo(device='NVIDIA T4', share='40 multiprocessors, 15 GiB', strategy='whole GPU')
    """
    count, memory, strategy = description["multiprocessors"], description["memory"], description["strategy"]
    threads, limit = description.get("threads"), description.get("memory_limit")
    share = f"{count} multiprocessors, {gibibytes(limit or memory)}"
    if threads is not None:
        share = f"{threads} % of {share}"
    strategies = {
        "mps": "MPS, side by side",
        "mig": f"MIG {description.get('profile', '')}".rstrip(),
        "time-slicing": f"time-slicing, {_INTERVALS[description.get('interval', 0)]} interval",
    }
    return DeviceInfo(description["product"], share, strategies.get(strategy, "whole GPU"))


def cuda_device_info(name: str, multiprocessors: int, memory: int, environment: Mapping[str, str]) -> DeviceInfo:
    """Return the description of a real GPU. Time slicing cannot be detected from inside a container."""
    share = f"{multiprocessors} multiprocessors, {gibibytes(memory)}"
    threads = environment.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    if " MIG " in name:
        return DeviceInfo(name, share, f"MIG {name.rpartition(' MIG ')[2]}")
    if "CUDA_MPS_PIPE_DIRECTORY" in environment or threads:
        return DeviceInfo(name, f"{threads} % of {share}" if threads else share, "MPS, side by side")
    return DeviceInfo(name, share, "GPU")


def gibibytes(size: int) -> str:
    """Format a size in GiB.

    >>> gibibytes(5 << 30), gibibytes(4864 << 20)
    ('5 GiB', '4.8 GiB')
    """
    return f"{size / (1 << 30):.1f} GiB".replace(".0 ", " ")
