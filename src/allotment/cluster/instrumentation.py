"""Instrumentation of programs: a record of each finished piece of work, for metrics and traces.

Programs do not depend on metrics or traces. They record what they did, for which object, how long it took and the
result; listeners make histograms or spans of it. A lab has no listeners, and then the cost is negligible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

#: Values of attributes.
Value = str | int | float | bool


class WorkRecord(NamedTuple):
    """A finished piece of work.

    ``name``: kind of work, from a closed set (``schedule``, ``bind``). ``subject``: uid of the object, which groups
    pieces of work. ``start``: seconds since the epoch; ``seconds``: duration. ``result``: from a small set (``bound``,
    ``unschedulable``, ``error``). ``attributes``: arbitrary values for traces.
    """

    name: str
    subject: str
    start: float
    seconds: float
    result: str
    attributes: Mapping[str, Value]


Listener = Callable[[WorkRecord], None]
#: Reads the current value of a gauge.
Level = Callable[[], float]


@dataclass(slots=True)
class WorkInProgress:
    """A piece of work in progress; the program sets its result and attributes."""

    result: str = "done"
    attributes: dict[str, Value] = field(default_factory=dict)


class Instrumentation:
    """Passes records of work from programs to listeners, and registers gauges."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.gauges: dict[tuple[str, str], Level] = {}
        """By what is measured (``queue``) and of what (``scheduler active``)."""

    @contextmanager
    def work(self, name: str, subject: str = "") -> Iterator[WorkInProgress]:
        """Record the work of the block; an exception is recorded as ``error`` and raised again."""
        work = WorkInProgress()
        start, at = time.time(), time.perf_counter()
        try:
            yield work
        except BaseException:
            work.result = "error"
            raise
        finally:
            self.record(WorkRecord(name, subject, start, time.perf_counter() - at, work.result, work.attributes))

    def record(self, done: WorkRecord) -> None:
        """Record work with known times."""
        for listener in self.listeners:
            listener(done)

    def gauge(self, of: str, label_value: str, read: Level) -> None:
        """Register a gauge."""
        self.gauges[of, label_value] = read


class _Unobserved(Instrumentation):
    """Does not keep gauges, which would outlive their programs."""

    def gauge(self, of: str, label_value: str, read: Level) -> None:
        """Ignore the gauge."""


#: For programs without listeners.
UNOBSERVED: Final[Instrumentation] = _Unobserved()
