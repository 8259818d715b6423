"""The events that the tutorial waits for: the reader enters a line, or an object in the lab changes."""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import NamedTuple, TypeAlias


class Changed(NamedTuple):
    """An object in the lab has changed."""


class Entered(NamedTuple):
    """The reader has entered a line."""

    line: str


class EndOfInput(NamedTuple):
    """The input has ended."""


class Settled(NamedTuple):
    """Nothing has happened for some time."""


Event: TypeAlias = Changed | Entered | EndOfInput | Settled


class EventQueue:
    """The events in the order in which they happen, from any thread."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.put(event)

    def discard_empty_lines(self) -> None:
        """Remove the empty lines that were entered so far: they were entered twice, or pasted with a command."""
        waiting = []
        while not self._events.empty():
            waiting.append(self._events.get())
        for event in waiting:
            if event != Entered(""):
                self._events.put(event)

    def next(self, timeout: float | None = None) -> Event:
        """Wait for the next event; return Settled if there is none for ``timeout`` seconds."""
        try:
            return self._events.get(timeout=timeout)
        except Empty:
            return Settled()


def read_lines(descriptor: int, events: EventQueue) -> None:
    """Put each line of a terminal into the queue, from a thread that ends with the input or the process.

    The thread reads the descriptor itself: a thread that holds Python's buffer at exit would abort the process.
    """

    def read() -> None:
        rest = b""
        while True:
            try:
                chunk = os.read(descriptor, 4096)
            except OSError:
                chunk = b""
            if not chunk:
                events.put(EndOfInput())
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                events.put(Entered(line.decode("utf-8", "replace").strip()))

    threading.Thread(target=read, name="allotment-terminal", daemon=True).start()
