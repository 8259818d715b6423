"""The cycle collector of a process that keeps what it makes.

Nearly all that a control plane allocates, and whoever follows one, are objects of the cluster, which stay and have no
cycles. Left to itself the collector looks at all of them again and again while their number grows, and finds nothing:
a quarter of the processor that a scheduler takes. So it is kept waiting for a quiet moment; what it has looked at then
counts as there for good and is not looked at again, but for once an hour.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

#: Seconds between two looks at what there is to do.
_EVERY: Final = 1.0
#: New objects that are worth a quiet moment, and those that are looked at however busy the process is.
_SOME: Final = 50_000
_MANY: Final = 2_000_000
#: A process that uses less than this part of a processor has a quiet moment.
_QUIET: Final = 0.1
#: Seconds after which the old are looked at, too.
_HOUR: Final = 3600.0


@contextmanager
def paused() -> Iterator[None]:
    """Without collections; for a start."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Look(NamedTuple):
    """What is known when it is time to decide: how many objects are new, how busy the process is, since when."""

    new: int
    busy: float
    since_all: float

    @property
    def due(self) -> bool:
        """Whether to collect now."""
        return self.new >= _MANY or (self.busy < _QUIET and (self.new >= _SOME or self.all_due))

    @property
    def all_due(self) -> bool:
        """Whether the old have their turn; only in a quiet moment, for there are many of them."""
        return self.busy < _QUIET and self.since_all >= _HOUR


async def tended() -> None:
    """Collect at the right moments, for ever; afterwards Python does as it always does."""
    gc.disable()
    try:
        _collect()
        last_all, used = time.monotonic(), time.process_time()
        while True:
            await asyncio.sleep(_EVERY)
            before, used = used, time.process_time()
            now = time.monotonic()
            look = Look(gc.get_count()[0], (used - before) / _EVERY, now - last_all)
            if look.all_due:
                gc.unfreeze()
                last_all = now
            if look.due:
                _collect()
    finally:
        gc.unfreeze()
        gc.enable()


def _collect() -> None:
    """Look at what is new, and put it with the old."""
    gc.collect()
    gc.freeze()
