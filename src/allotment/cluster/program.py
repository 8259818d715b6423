"""Programs (controllers) that run concurrently on a cluster, and the context that each gets.

A program is an async function that runs until cancelled. Programs interact only through the objects of the cluster, so
each can run alone, and one that crashes is restarted without the others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple, Protocol

from allotment.cluster.backoff import Backoff
from allotment.cluster.cache import Cache, Changed
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.instrumentation import UNOBSERVED, Instrumentation, WorkRecord
from allotment.cluster.recorder import Events, Recorder
from allotment.cluster.shutdown import NEVER, Shutdown
from allotment.cluster.work_queue import WorkQueue

log = logging.getLogger(__name__)

#: A program that ran this long before it crashed restarts without delay.
_HEALTHY_SECONDS = 60.0


class ClientFactory(Protocol):
    """Creates the client of each program."""

    def __call__(self, name: str, manager: str = "") -> Client:
        """Return a client with the identity of a program (``replicaset-controller``, ``kube-scheduler``).

        ``manager``: the field manager, if it differs from Kubernetes' for that program.
        """
        ...


class ProgramContext(NamedTuple):
    """The dependencies of a program."""

    client_for: ClientFactory
    caches: Caches
    clock: Clock
    events: Events
    random: Random
    observing: Instrumentation = UNOBSERVED
    stopping: Shutdown = NEVER

    def recorder(self, component: str) -> Recorder:
        """A recorder of events whose source is ``component``."""
        return self.events.recorder(component)


Program = Callable[[ProgramContext], Awaitable[None]]


async def run_queues(
    queues: Iterable[WorkQueue[Any]], watches: Iterable[tuple[Cache[Any], Changed[Any]]], stopping: Shutdown = NEVER
) -> None:
    """Run work queues with the cache callbacks that fill them, once all caches have synced."""
    watches = tuple(watches)
    if not await stopping.run_until_shutdown(all_synced(*(cache for cache, _ in watches))):
        return
    with ExitStack() as stack:
        for cache, callback in watches:
            stack.callback(cache.on_change(callback))
        async with asyncio.TaskGroup() as group:
            for queue in queues:
                group.create_task(queue.run(stopping), name=queue.name)


async def run(programs: Mapping[str, Program], context: ProgramContext) -> None:
    """Run programs and their shared caches and events until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(keep_alive("caches", context, lambda _: context.caches.run()), name="caches")
        group.create_task(keep_alive("events", context, lambda _: context.events.run()), name="events")
        for name, program in programs.items():
            group.create_task(keep_alive(name, context, program), name=name)


async def keep_alive(name: str, context: ProgramContext, program: Program) -> None:
    """Run a program until shutdown; restart it with backoff if it crashes or ends before.

    Each restart is recorded as work ``run`` of the subject ``name``.
    """
    backoff = Backoff(context.random, first=0.1, longest=30.0)
    while True:
        start, at = context.clock.seconds(), time.time()
        result = "ended"
        try:
            await program(context)
            if context.stopping.started:
                return
            log.error("%s: ended unexpectedly", name)
        except Exception:
            log.exception("%s: crashed", name)
            result = "crashed"
        context.observing.record(WorkRecord("run", name, at, time.time() - at, result, {}))
        if context.stopping.started:
            return
        if context.clock.seconds() - start >= _HEALTHY_SECONDS:
            backoff.reset()
        await context.clock.sleep(backoff.next())
