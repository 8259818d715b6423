"""The progress of a search on standard error if that is a terminal, and its end by Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from math import inf
from time import monotonic
from types import FrameType
from typing import Final

from allotment.api.plans.search_control import SearchControl
from allotment.planning.reasons.wording import dollars

_MICRO: Final = 10**6
_EVERY: Final = 0.1


class Watch(SearchControl):
    """A time limit of the user, if there is one, with a progress line; Ctrl-C ends the search as well."""

    def __init__(self, seconds: float = inf) -> None:
        super().__init__(seconds, monotonic)
        self._shown = 0.0
        self._shows = sys.stderr.isatty()
        self._wrote = False

    def progress(self, cost: int, bound: int) -> None:
        """Show the best plan's cost and the bound, in millionths of a dollar per hour."""
        now = monotonic()
        if not self._shows or now - self._shown < _EVERY:
            return
        self._shown = now
        gap = f", gap {cost / bound - 1:.1%}" if bound else ""
        text = f"{now - self.started_at:.0f} s: {_usd(cost)} USD/h, at least {_usd(bound)}{gap}"
        self._write(f"{text}  (Ctrl-C: use this plan)")

    def show(self, text: str) -> None:
        """Show what is searched."""
        self._write(f"{text}  (Ctrl-C: skip)")

    def close(self) -> None:
        """Clear the progress line."""
        if self._wrote:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _write(self, text: str) -> None:
        if self._shows:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._wrote = True


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
