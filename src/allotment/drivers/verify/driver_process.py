"""The driver's process, where the kit starts it: only then can it be ended, killed and started again."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

#: How long a driver may take to end after SIGTERM: what a pod has by default.
_GRACE_SECONDS: Final = 30.0
#: As much of what the driver wrote as helps.
_TAIL_LINES: Final = 15


class ProcessExited(Exception):
    """The driver's process has ended though nobody asked it to; the text says how, and what it wrote last."""


class DriverProcess(Protocol):
    """A driver's process that can be had again and again."""

    async def start(self) -> None:
        """Begin; the sockets come later."""
        ...

    async def stop(self) -> None:
        """End as a pod ends: SIGTERM, then patience."""
        ...

    async def kill(self) -> None:
        """End with SIGKILL, at once."""
        ...

    def check(self) -> None:
        """Raises Ended if it has ended by itself."""
        ...


class CommandProcess:
    """A command, in a process group of its own. What it writes goes to the file ``log``."""

    def __init__(self, command: str, log: Path) -> None:
        """Raises ValueError for a command that has no words."""
        self._command = shlex.split(command)
        if not self._command:
            raise ValueError("no command")
        self.log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Raises OSError where there is no such program."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def stop(self) -> None:
        """SIGTERM to the command; what is left after 30 s is killed."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """SIGKILL to the whole group: the command may be a shell around the driver."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def check(self) -> None:
        """Raises Ended."""
        process = self._process
        if process is not None and process.returncode is not None:
            code = process.returncode
            how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            raise ProcessExited(f"the driver ended {how}{self.tail()}")

    def tail(self) -> str:
        """What was written last, each line on its own."""
        try:
            lines = self.log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            return ""
        return "".join(f"\n  | {line}" for line in lines)
