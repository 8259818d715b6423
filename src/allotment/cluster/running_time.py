"""The running time of this process, without the time in which it was suspended.

A process may be suspended (SIGSTOP, a debugger, a suspended machine, a blocked event loop) while its clock advances.
Afterwards, other machines seem to have been silent for long. Programs that act on silence measure it in running time.

While the event loop runs, the clock is read at least once in each step. Of the time between two readings one step is
running time at most; in the rest nothing ran. The wall clock is not used: setting it changes nothing.
"""

from __future__ import annotations

import logging
from typing import Final

from allotment.cluster.clock import Clock

#: A step in seconds of the clock, and its limits in real seconds.
_STEP_SECONDS: Final = 5.0
_LEAST_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 1.0
#: Real seconds; a longer suspension is logged.
_NOTICED_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class RunningTime:
    """Starts at 0, and advances while :meth:`run` does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._step = min(max(_STEP_SECONDS, _LEAST_SECONDS * clock.speed), _MOST_SECONDS * clock.speed)
        self._read = clock.seconds()
        self._running = 0.0

    def seconds(self) -> float:
        """Seconds of the clock since the start in which the process ran."""
        now = self._clock.seconds()
        elapsed, self._read = now - self._read, now
        self._running += min(elapsed, self._step)
        suspended = (elapsed - self._step) / self._clock.speed
        if suspended >= _NOTICED_SECONDS:
            log.warning("the process did not run for %.0f s; this does not count against nodes and pods", suspended)
        return self._running

    async def run(self) -> None:
        """Read the clock in each step, forever."""
        while True:
            self.seconds()
            await self._clock.sleep(self._step)
