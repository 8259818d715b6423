"""The time that a search may take, and a line on standard error that follows it, on a terminal only."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from time import monotonic
from types import FrameType
from typing import Final

from allotment.model.meta import Object
from allotment.model.workload_pods import pods_of
from allotment.tools.plan.reasons.wording import dollars

#: Up to so many pods: so many seconds for improving. Most plans are proven the cheapest long before.
_SECONDS: Final = ((20, 1.0), (200, 3.0))
_MOST: Final = 10.0
_MICRO: Final = 10**6
_EVERY: Final = 0.1


def seconds_for(values: Sequence[Object]) -> float:
    """How long to look for something cheaper, by the number of pods."""
    pods = 0
    for value in values:
        pods += sum(1 for _ in islice(pods_of(value, limit=_SECONDS[-1][0] + 1), _SECONDS[-1][0] + 1))
        if pods > _SECONDS[-1][0]:
            return _MOST
    return next(seconds for most, seconds in _SECONDS if pods <= most)


class Watch:
    """A clock that runs down, and what it shows meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._began = monotonic()
        self._ends = self._began + seconds
        self.stopped = False
        self._shown = 0.0
        self._shows = sys.stderr.isatty()
        self._wrote = False

    def keep_going(self) -> bool:
        """Whether there is time left."""
        return not self.stopped and monotonic() < self._ends

    def stop(self) -> None:
        """Somebody has seen enough: what was found is answered."""
        self.stopped = True

    def restart(self, seconds: float) -> None:
        """Give something else so many seconds, from now."""
        self._ends = monotonic() + seconds

    def progress(self, cost: int, bound: int) -> None:
        """Show what was found, in millionths of a dollar per hour."""
        now = monotonic()
        if not self._shows or now - self._shown < _EVERY:
            return
        self._shown = now
        gap = f", gap {cost / bound - 1:.1%}" if bound else ""
        text = f"{now - self._began:.0f} s: {_usd(cost)} USD/h, at least {_usd(bound)}{gap}  (Ctrl-C: use this)"
        self.show(text)

    def show(self, text: str) -> None:
        """One line, in place of the last one."""
        if self._shows:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._wrote = True

    def close(self) -> None:
        """Leave no trace."""
        if self._wrote:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _usd(micro: int) -> str:
    return dollars(Decimal(micro) / _MICRO)


@contextmanager
def watching(seconds: float) -> Iterator[Watch]:
    """A watch that the first Ctrl-C stops; a second one ends the program, as ever."""
    watch = Watch(seconds)

    def interrupted(number: int, frame: FrameType | None) -> None:
        watch.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, interrupted)
    except ValueError:  # not the main thread: nobody interrupts us here
        before = None
    try:
        yield watch
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
        watch.close()
