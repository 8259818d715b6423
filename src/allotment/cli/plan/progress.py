"""The limits of a search, and its progress on standard error if that is a terminal."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from math import inf
from time import monotonic
from types import FrameType
from typing import Final

from allotment.model.meta import Object
from allotment.model.workload_pods import pods_of
from allotment.planning.reasons.wording import dollars

#: Maximum number of pods, and the steps for improving a plan of that size: about 1, 3 and 10 seconds. Most plans are
#: proven optimal earlier.
_STEPS: Final = ((20, 1_000), (200, 3_000))
_MOST_STEPS: Final = 6_000
_MICRO: Final = 10**6
_EVERY: Final = 0.1


def steps_for(values: Sequence[Object]) -> int:
    """Return the limit in steps by the number of pods."""
    pods = 0
    for value in values:
        pods += sum(1 for _ in islice(pods_of(value, limit=_STEPS[-1][0] + 1), _STEPS[-1][0] + 1))
        if pods > _STEPS[-1][0]:
            return _MOST_STEPS
    return next(steps for most, steps in _STEPS if pods <= most)


class Watch:
    """A time limit of the user, if there is one, with a progress line; Ctrl-C ends the search as well."""

    def __init__(self, seconds: float = inf) -> None:
        self._started_at = monotonic()
        self._ends = self._started_at + seconds
        self.stopped = False
        self._shown = 0.0
        self._shows = sys.stderr.isatty()
        self._wrote = False

    def keep_going(self) -> bool:
        """Return whether time is left."""
        return not self.stopped and monotonic() < self._ends

    def stop(self) -> None:
        """Stop the search; the best plan so far is the result."""
        self.stopped = True

    def restart(self, seconds: float) -> None:
        """Start the time limit again for another search."""
        self._ends = monotonic() + seconds

    def progress(self, cost: int, bound: int) -> None:
        """Show the best plan's cost and the bound, in millionths of a dollar per hour."""
        now = monotonic()
        if not self._shows or now - self._shown < _EVERY:
            return
        self._shown = now
        gap = f", gap {cost / bound - 1:.1%}" if bound else ""
        text = (
            f"{now - self._started_at:.0f} s: {_usd(cost)} USD/h, at least {_usd(bound)}{gap}  (Ctrl-C: use this plan)"
        )
        self.show(text)

    def show(self, text: str) -> None:
        """Replace the progress line."""
        if self._shows:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._wrote = True

    def close(self) -> None:
        """Clear the progress line."""
        if self._wrote:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _usd(micro: int) -> str:
    return dollars(Decimal(micro) / _MICRO)


@contextmanager
def watching(seconds: float) -> Iterator[Watch]:
    """Return a watch that the first Ctrl-C stops; a second one interrupts the program."""
    watch = Watch(seconds)

    def interrupted(number: int, frame: FrameType | None) -> None:
        watch.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, interrupted)
    except ValueError:  # signal handlers can only be set in the main thread
        before = None
    try:
        yield watch
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        watch.close()
