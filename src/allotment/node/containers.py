"""One container of a pod: at most one run at a time, what it printed, how the run before ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.node.container_log import Journal
from allotment.node.runtimes.runtime import NotStarted, Running, Runtime, Sandbox

#: What a run ended with of which nobody can say how it ended: as if it had been killed (ContainerStatusUnknown).
_UNKNOWN: Final = 137

log = logging.getLogger(__name__)


class ContainerExit(NamedTuple):
    """How a run of a container ended."""

    code: int
    started: datetime
    finished: datetime


class WaitingReason(NamedTuple):
    """Why a container does not run, as its state shows it."""

    reason: str
    message: str = ""


class Container:
    """A container and its runs. ``sandbox`` makes what the runtime is given for each; it may raise NotStarted."""

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
        #: What its startup and readiness probes say; without probes, that it runs is enough.
        self.up = asyncio.Event()
        self.ready = False
        self.journal = Journal()
        self.journal_before: Journal | None = None
        #: What the runtime runs now, and what of that is being ended.
        self.now: Running | None = None
        self.ends: Running | None = None
        self.clock = clock
        #: What it is given to answer is measured with: a real program is no faster in a lab whose clock runs faster.
        self.timeout_clock = Clock() if runtime.real else clock
        self._runtime = runtime
        self._sandbox = sandbox

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.started is not None and self.ended is None

    async def start(self) -> None:
        """Begin a run. Raises NotStarted, and is then as before."""
        # The first run writes into the journal that is there: a pod of one run, the usual one, has one.
        journal = self.journal if self.started is None else Journal()

        async def write(data: bytes) -> None:
            journal.write(data, self.clock.moment())

        try:
            now = await self._runtime.start(await self._sandbox(), write)
        except NotStarted:
            raise
        except Exception as error:
            # A disk that is full, a file too many: it is this container's trouble, and is tried again.
            log.warning("container %s did not start", self.name, exc_info=True)
            raise NotStarted("CreateContainerError", f"{type(error).__name__}: {error}") from error
        if self.started is not None:
            self.journal_before = self.journal
        if self.ended is not None:
            self.restarts += 1
            self.previous, self.ended = self.ended, None
        self.now, self.journal, self.waiting = now, journal, None
        self.started = self.clock.moment()
        self.ready = not self.spec.get("readinessProbe") and not self.spec.get("startupProbe")
        self.up.clear()
        if not self.spec.get("startupProbe"):
            self.up.set()

    async def wait(self) -> ContainerExit:
        """How the run ended. A caller who does not wait to the end kills it."""
        now, started = self.now, self.started
        assert now is not None, "the container was not started"
        assert started is not None, "the container was not started"
        code = _UNKNOWN
        try:
            code = await now.wait()
        except asyncio.CancelledError:
            await now.stop(0)
            raise
        except Exception:
            log.exception("container %s: exit code unknown", self.name)
        finally:
            self.now = None
            self.ready = False
            finished = self.clock.moment()
            self.journal.close(finished)
            self.ended = ContainerExit(code, started, finished)
        return self.ended

    async def run(self) -> ContainerExit:
        """Run once, to the end."""
        await self.start()
        return await self.wait()


async def cancel_all(tasks: list[asyncio.Task[Any]]) -> None:
    """Stop tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
