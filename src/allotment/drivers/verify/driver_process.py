"""The driver's process, if the verifier starts it: only then can it be stopped, killed and restarted."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

#: Time for a driver to exit after SIGTERM: the default of a pod.
_GRACE_SECONDS: Final = 30.0
#: Number of lines of the driver's output in an error.
_TAIL_LINES: Final = 15


class ProcessExited(Exception):
    """Raised if the driver's process has exited by itself; the text has its exit status and last output."""


class DriverProcess(Protocol):
    """A driver's process that can be restarted."""

    async def start(self) -> None:
        """Start the process; the sockets are created later."""
        ...

    async def stop(self) -> None:
        """Stop as a pod stops: SIGTERM, a grace period, SIGKILL."""
        ...

    async def kill(self) -> None:
        """Kill with SIGKILL."""
        ...

    def check(self) -> None:
        """Raise ProcessExited if the process has exited by itself."""
        ...


class CommandProcess:
    """A command in a new process group. Its output is appended to the file ``log``."""

    def __init__(self, command: str, log: Path) -> None:
        """Raises ValueError for an empty command."""
        self._command = shlex.split(command)
        if not self._command:
            raise ValueError("no command")
        self.log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the command. Raises OSError if the program does not exist."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def stop(self) -> None:
        """Send SIGTERM to the command; kill the process group after it has exited or after 30 s."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """Send SIGKILL to the whole process group: the command may be a shell that started the driver."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def check(self) -> None:
        process = self._process
        if process is not None and process.returncode is not None:
            code = process.returncode
            how = f"was terminated by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
            raise ProcessExited(f"the driver {how}{self.tail()}")

    def tail(self) -> str:
        """Return the last lines of the output, each on a new line."""
        try:
            lines = self.log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        except OSError:
            return ""
        return "".join(f"\n  | {line}" for line in lines)
