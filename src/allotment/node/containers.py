"""A container of a pod: its current run, log, restart count and last exit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.node.container_log import ContainerLog
from allotment.node.runtimes.runtime import NotStarted, Running, Runtime, Sandbox

#: Exit code of a run whose end is unknown, as if it had been killed (ContainerStatusUnknown).
_UNKNOWN: Final = 137

_FROM_LOG: Final = "FallbackToLogsOnError"
#: Bytes of a termination message, and bytes and lines of a log that replaces it.
_LONGEST_MESSAGE: Final = 4096
_LONGEST_LOG: Final = 2048
_MOST_LINES: Final = 80

log = logging.getLogger(__name__)


class ContainerExit(NamedTuple):
    """Exit code, start and end of a run of a container, and its termination message."""

    code: int
    started: datetime
    finished: datetime
    message: str = ""


class WaitingReason(NamedTuple):
    """Reason and message of a container's waiting state."""

    reason: str
    message: str = ""


class Container:
    """A container and its runs, at most one at a time. ``sandbox`` builds the runtime's input; may raise NotStarted."""

    def __init__(
        self, spec: Tree, *, runtime: Runtime, clock: Clock, sandbox: Callable[[], Awaitable[Sandbox]]
    ) -> None:  # fmt: skip
        self.name: str = spec["name"]
        self.image: str = spec.get("image", "")
        self.spec = spec
        self.runtime = runtime.name
        self.restarts = 0
        self.started: datetime | None = None
        self.ended: ContainerExit | None = None
        self.previous: ContainerExit | None = None
        self.waiting: WaitingReason | None = None
        #: Results of its startup and readiness probes; without probes, running is enough.
        self.up = asyncio.Event()
        self.ready = False
        self.current_log = ContainerLog()
        self.previous_log: ContainerLog | None = None
        #: The current run, and the run that is being terminated.
        self.now: Running | None = None
        self.ends: Running | None = None
        self.clock = clock
        #: The clock for probe timeouts: a real program is not faster in a lab whose clock runs faster.
        self.timeout_clock = Clock() if runtime.real else clock
        self._runtime = runtime
        self._sandbox = sandbox

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.started is not None and self.ended is None

    async def start(self) -> None:
        """Start a run. Raises NotStarted and leaves the state unchanged."""
        # The first run writes into the existing log, so a pod without restarts has only one.
        new_log = self.current_log if self.started is None else ContainerLog()

        async def write(data: bytes) -> None:
            new_log.write(data, self.clock.moment())

        try:
            now = await self._runtime.start(await self._sandbox(), write)
        except NotStarted:
            raise
        except Exception as error:
            # A full disk or too many open files must fail only this container, and the start is retried.
            log.warning("container %s did not start", self.name, exc_info=True)
            raise NotStarted("CreateContainerError", f"{type(error).__name__}: {error}") from error
        if self.started is not None:
            self.previous_log = self.current_log
        if self.ended is not None:
            self.restarts += 1
            self.previous, self.ended = self.ended, None
        self.now, self.current_log, self.waiting = now, new_log, None
        self.started = self.clock.moment()
        self.ready = not self.spec.get("readinessProbe") and not self.spec.get("startupProbe")
        self.up.clear()
        if not self.spec.get("startupProbe"):
            self.up.set()

    async def wait(self) -> ContainerExit:
        """Wait for the end of the run. Cancelling this kills the container."""
        now, started = self.now, self.started
        assert now is not None, "the container was not started"
        assert started is not None, "the container was not started"
        code, message = _UNKNOWN, ""
        try:
            code = await now.wait()
            path = self.spec.get("terminationMessagePath") or "/dev/termination-log"
            message = (await now.written(path))[:_LONGEST_MESSAGE].decode(errors="replace")
        except asyncio.CancelledError:
            await now.stop(0)
            raise
        except Exception:
            log.exception("container %s: exit code unknown", self.name)
        finally:
            self.now = None
            self.ready = False
            finished = self.clock.moment()
            self.current_log.close(finished)
            if code != 0 and not message and self.spec.get("terminationMessagePolicy") == _FROM_LOG:
                message = self._log_message()
            self.ended = ContainerExit(code, started, finished, message)
        return self.ended

    def _log_message(self) -> str:
        """The end of the log, as the termination message of a container that failed without one."""
        log = self.current_log
        text = b"\n".join(line.text for line in log.lines(_MOST_LINES)) + (b"\n" if log.ends_with_newline else b"")
        return text[-_LONGEST_LOG:].decode(errors="replace") if log.number else ""

    async def run(self) -> ContainerExit:
        """Run once and wait for the end."""
        await self.start()
        return await self.wait()


async def cancel_all(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have finished."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
