"""What programs tell of their own work, for whoever measures or traces it: a value for each piece, once it is done.

A program knows neither metrics nor traces. It says what it did, for which object, how long it took and how it ended;
who listens makes histograms or spans of that. Nobody listens in a lab, and then it costs next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

#: What a piece of work can carry beside its name: few values for ``result``, any for attributes.
Value = str | int | float | bool


class Done(NamedTuple):
    """A piece of work that has ended.

    ``name``: what kind of work, from a closed set (``schedule``, ``bind``). ``subject``: the object, of which pieces of
    work belong together (a pod's uid). ``began``: seconds of the epoch; ``seconds``: how long it took. ``result``: one
    of a few words (``bound``, ``unschedulable``, ``error``). ``attributes`` may differ each time, and are for traces.
    """

    name: str
    subject: str
    began: float
    seconds: float
    result: str
    attributes: Mapping[str, Value]


Listener = Callable[[Done], None]
#: How much of something there is now: gauges are read when somebody looks.
Level = Callable[[], float]


@dataclass(slots=True)
class Work:
    """A piece of work under way: say how it ends, and what is worth knowing of it."""

    result: str = "done"
    attributes: dict[str, Value] = field(default_factory=dict)


class Observing:
    """Where programs tell, and listeners hear."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.levels: dict[tuple[str, str], Level] = {}
        """By what it measures (``queue``) and of what (``scheduler active``)."""

    @contextmanager
    def work(self, name: str, subject: str = "") -> Iterator[Work]:
        """Tell of what happens inside; an exception is the result ``error``, and goes on."""
        work = Work()
        began, at = time.time(), time.perf_counter()
        try:
            yield work
        except BaseException:
            work.result = "error"
            raise
        finally:
            self.tell(Done(name, subject, began, time.perf_counter() - at, work.result, work.attributes))

    def tell(self, done: Done) -> None:
        """Of work whose times are known."""
        for listener in self.listeners:
            listener(done)

    def level(self, of: str, which: str, read: Level) -> None:
        """Make known how much there is of something, whenever somebody looks."""
        self.levels[of, which] = read


class _Unobserved(Observing):
    """It must not hold what programs that are long gone would let be looked at."""

    def level(self, of: str, which: str, read: Level) -> None:
        """Nobody looks."""


#: For programs that nobody listens to.
UNOBSERVED: Final[Observing] = _Unobserved()
