"""The share of a simulated device that a program can use.

The compute server looks it up with the token of the program's container, and enforces it. Programs with the same
``engine`` use the same multiprocessors: concurrently if they are clients of one MPS daemon, otherwise time-sliced.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Strategy = Literal["exclusive", "time-slicing", "mps", "mig"]


class ComputeShare(NamedTuple):
    """A claim's current share of a simulated device.

    ``engine``: UUID of the GPU or MIG device. ``multiprocessors`` and ``memory`` (bytes): of the whole engine;
    ``threads`` (percent of the multiprocessors, None: all) and ``memory_limit`` (bytes, None: none): limits for each
    program of an MPS daemon. ``daemon``: the MPS daemon's key, empty without. ``interval``: time slice, 0 (default) to
    3 (long). ``profile``: the MIG profile, empty for a whole GPU. ``exclusive``: a second program is refused, because
    the GPU is in mode EXCLUSIVE_PROCESS and the program is no client of the daemon that owns it.
    """

    claim: str
    pci: str
    engine: str
    product: str
    multiprocessors: int
    memory: int
    strategy: Strategy
    interval: int = 0
    daemon: str = ""
    threads: int | None = None
    memory_limit: int | None = None
    profile: str = ""
    exclusive: bool = False
