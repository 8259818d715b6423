"""The cycle collector of a process that keeps what it makes.

Nearly all that a control plane allocates are objects of the cluster, which stay and have no cycles. The collector looks
at all of them again and again while their number grows, most of all at the start, and finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Allocations between two looks at the young; the usual 700 is a few objects of the API.
_YOUNG = 20_000


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


def settle() -> None:
    """What is there now stays for the life of the process, and what comes may come in greater numbers."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, 20, 20)
