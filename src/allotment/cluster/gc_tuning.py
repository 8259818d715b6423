"""Tuning of Python's garbage collector for processes whose objects are long-lived.

Nearly all objects of a control plane and its clients are cluster objects, which are long-lived and have no reference
cycles. Python's cyclic collector scans them again and again while their number grows, and finds nothing: this takes a
quarter of a scheduler's CPU time. Here it runs while the process is idle; objects that survive are frozen and only
scanned again once an hour.

After work, the C library keeps the memory of temporary objects, such as large request bodies. While the process is
idle, it is returned to the system.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

#: Seconds between two checks.
_EVERY: Final = 1.0
#: New objects that are worth a collection while idle, and those that require one even while busy.
_SOME: Final = 50_000
_MANY: Final = 2_000_000
#: A process that uses less than this share of a CPU is idle.
_QUIET: Final = 0.1
#: Seconds between collections of all objects.
_HOUR: Final = 3600.0
#: Seconds of CPU time, or bytes by which the memory has grown, after which memory is returned to the system again:
#: many connections use memory, but hardly any time.
_WORK: Final = 1.0
_GROWTH: Final = 16 << 20
#: The growth in bytes, and as a share, after which all objects are collected: those of connections have cycles, and
#: were frozen while they were open.
_MUCH: Final = 32 << 20
_SHARE: Final = 0.25


class GcState(NamedTuple):
    """The input of a decision: new objects, CPU share used, seconds since the last full collection, and whether the
    memory has grown much since then."""

    new: int
    busy: float
    since_all: float
    grown: bool = False

    @property
    def due(self) -> bool:
        """Whether to collect now."""
        return self.new >= _MANY or (self.busy < _QUIET and (self.new >= _SOME or self.all_due))

    @property
    def all_due(self) -> bool:
        """Whether to collect all objects; only while idle, because they are many."""
        return self.busy < _QUIET and (self.since_all >= _HOUR or self.grown)


async def collect_when_idle() -> None:
    """Collect while idle until cancelled; then restore Python's default behavior."""
    gc.disable()
    try:
        _collect()
        last_all, used = time.monotonic(), time.process_time()
        trimmed, resident = used, _resident()
        after_all = resident
        while True:
            await asyncio.sleep(_EVERY)
            before, used = used, time.process_time()
            now, memory = time.monotonic(), _resident()
            grown = memory - after_all >= max(_MUCH, after_all * _SHARE)
            look = GcState(gc.get_count()[0], (used - before) / _EVERY, now - last_all, grown)
            all_due = look.all_due
            if all_due:
                gc.unfreeze()
                last_all = now
            if look.due:
                _collect()
            if look.busy < _QUIET and (all_due or used - trimmed >= _WORK or memory - resident >= _GROWTH):
                _return_memory()
                trimmed, resident = used, _resident()
                after_all = resident if all_due else after_all
    finally:
        gc.unfreeze()
        gc.enable()


def _resident() -> int:
    """The bytes of memory that this process uses; 0 on other systems than Linux."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _return_memory() -> None:
    """Return the free memory of the C library to the system; does nothing with other libraries than glibc."""
    if sys.platform != "linux":
        return
    import ctypes  # after the start, which it would delay

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _collect() -> None:
    """Collect the new objects and freeze the survivors."""
    gc.collect()
    gc.freeze()
