"""Drives interactive shells at a pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import time
from collections.abc import Iterator, Sequence

_SECONDS = 60.0


class Terminal:
    """Sends keys to a program and reads its output."""

    def __init__(self, process: int, end: int) -> None:
        self._process, self._end = process, end
        self.screen = ""

    def type(self, text: str) -> None:
        """Send keys to the terminal."""
        self.screen = ""
        os.write(self._end, text.encode())

    def awaits(self, text: str) -> str:
        """Return the output since the last keys when it contains this text."""
        deadline = time.monotonic() + _SECONDS
        while text not in self.screen:
            assert time.monotonic() < deadline, f"{text!r} was not printed:\n{self.screen}"
            if select.select([self._end], [], [], 0.2)[0]:
                self.screen += os.read(self._end, 65536).decode(errors="replace")
        return self.screen


@contextlib.contextmanager
def terminal(command: Sequence[str], environment: dict[str, str]) -> Iterator[Terminal]:
    """Run a program at a terminal, and stop it afterwards."""
    process, end = pty.fork()
    if process == 0:
        os.execvpe(command[0], list(command), environment)
    try:
        yield Terminal(process, end)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(end)
