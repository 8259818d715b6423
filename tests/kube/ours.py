"""Our programs at work on Kubernetes' API server, as clients over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random

from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.program import Program, ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from bench.real_kube import ApiServer


@asynccontextmanager
async def at_work(server: ApiServer, programs: Mapping[str, Program]) -> AsyncIterator[HttpClient]:
    """The programs, until the context ends; each has a client of its own name. Yields one more, for the test."""
    async with AsyncExitStack() as stack:
        clients: dict[str, HttpClient] = {}

        def client_for(name: str, manager: str = "") -> HttpClient:
            known = manager or name
            if known not in clients:
                clients[known] = server.client(known)
                stack.push_async_callback(clients[known].close)
            return clients[known]

        clock, random, mine = Clock(), Random(), client_for("allotment")
        caches, events = Caches(mine, clock=clock, random=random), Events(mine, clock=clock)
        working = asyncio.create_task(run(programs, ProgramContext(client_for, caches, clock, events, random)))
        try:
            yield client_for("test")
            assert not working.done(), "our programs ended by themselves"
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
