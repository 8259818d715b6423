"""What a program that was let onto a simulated GPU may use of it.

The simulated compute engine asks for it with the token that the program's container was given, and holds the program
to it. Programs with the same ``engine`` use the same multiprocessors: at once if they are clients of one MPS daemon,
else in turn.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Strategy = Literal["exclusive", "time-slicing", "mps", "mig"]


class ComputeShare(NamedTuple):
    """One claim's part of one simulated device, as things are now.

    ``engine``: UUID of what it runs on, a GPU or a MIG device. ``multiprocessors`` and ``memory`` (bytes) are the
    whole engine's; ``threads`` (percent of the multiprocessors, None: all) and ``memory_limit`` (bytes, None: none)
    are what each program of an MPS daemon may have. ``daemon``: the MPS daemon's key, empty without. ``interval``: time
    slice, 0 (default) to 3 (long). ``profile``: the MIG profile, empty for a whole GPU. ``alone``: a second program is
    refused, as the GPU is in mode EXCLUSIVE_PROCESS and the program does not go through the daemon that owns it.
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
