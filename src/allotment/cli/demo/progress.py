"""The progress line of a command that runs a lab, and silence for the lab's log."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from allotment.cli.output.console import Screen, shorten

_WIDTH = 80


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the log messages of a control plane that starts and stops."""
    logger = logging.getLogger("allotment")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class Progress:
    """A progress line that is overwritten on a terminal; no output elsewhere."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._live = screen.out.isatty()
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show the current step."""
        if self._live:
            self._shown = True
            self._screen.out.write("\r\x1b[K" + self._screen.paint(shorten(text, self._screen.width or _WIDTH), "dim"))
            self._screen.out.flush()

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            self._shown = False
            self._screen.out.write("\r\x1b[K")
            self._screen.out.flush()
