"""Allotment's programs running against Kubernetes' API server, as clients over HTTPS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import Random

from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.program import Program, ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.remote.version_negotiation import NegotiatingClient, ServedVersions
from bench.real_kube import ApiServer


@asynccontextmanager
async def running_programs(server: ApiServer, programs: Mapping[str, Program]) -> AsyncIterator[NegotiatingClient]:
    """Run the programs until the context ends, each with a client of its own name. Yields another client for the
    test."""
    async with AsyncExitStack() as stack:
        clients: dict[str, NegotiatingClient] = {}
        versions: list[ServedVersions] = []

        def client_for(name: str, manager: str = "") -> NegotiatingClient:
            known = manager or name
            if known not in clients:
                client = server.client(known)
                stack.push_async_callback(client.close)
                clients[known] = NegotiatingClient(client, versions[0] if versions else None)
                versions.append(clients[known].versions)
            return clients[known]

        clock, random, own_client = Clock(), Random(), client_for("allotment")
        caches, events = Caches(own_client, clock=clock, random=random), Events(own_client, clock=clock)
        working = asyncio.create_task(run(programs, ProgramContext(client_for, caches, clock, events, random)))
        try:
            yield client_for("test")
            assert not working.done(), "Allotment's programs ended unexpectedly"
        finally:
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
