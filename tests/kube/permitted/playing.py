"""What each part does when it does all that it can do: a story ends when the cluster shows that it was done.

Whatever a part may need is asked for here, also what it needs only after a conflict or an answer that was lost; whoever
adds a request to a program adds it to its story, for permissions that no story uses count as too many.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, Final

from allotment.cluster import program
from allotment.cluster.caches import Caches
from allotment.cluster.client import Resource
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.leader_election import LeaderElection, LeaseTimings
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import LEASES, PODS
from allotment.components.diagnostic_endpoints import MetricsAuthorizer
from allotment.model.trees import Tree
from allotment.tools.permissions.components import lease_of

#: Told of verb, resource, what is sent, and subresource.
Meddling = Callable[[str, Resource, Tree, str], Awaitable[None]]

#: Simulated seconds of programs pass so much faster.
SPEED: Final = 10.0
#: Renewed often, and kept where nothing gets to run for a while.
_TERMS: Final = LeaseTimings(lease=300, renew=200, retry=0.1)


@contextlib.asynccontextmanager
async def running(client: HttpClient, part: str, run: Program, *, leads: bool = True) -> AsyncIterator[ProgramContext]:
    """A part's program with the rights of a client; where several copies may run, one that leads."""
    clock, random = Clock(SPEED), Random()
    caches = Caches(client, clock=clock, random=random)
    context = ProgramContext(lambda name, manager="": client, caches, clock, Events(client, clock=clock), random)
    election = LeaderElection(client, lease_of(part), "story", clock=Clock(), random=random, terms=_TERMS)

    async def alone() -> None:
        await program.run({part: run}, context)

    task = asyncio.create_task(election.run(alone) if leads else alone())
    try:
        yield context
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(true: Callable[[], Awaitable[Any]]) -> Any:
    """Wait for what becomes true; whoever calls bounds the time."""
    while True:
        with contextlib.suppress(StatusError):
            if found := await true():
                return found
        await asyncio.sleep(0.03)


async def told_again(times: Callable[[], Awaitable[int]]) -> None:
    """Wait until an event that was written is told again: of two that come before, one request tells."""
    first: int = await until(times)

    async def more() -> bool:
        return await times() > first

    await until(more)


async def is_leaving(admin: HttpClient, pod: str) -> bool:
    """Whether a pod is being deleted, or is gone already."""
    found = (await admin.list(PODS, "default", fields=f"metadata.name={pod}")).items
    return all("deletionTimestamp" in one["metadata"] for one in found)


async def renewed(admin: HttpClient, part: str) -> None:
    """Wait until a part has taken its Lease and renewed it."""

    async def was() -> bool:
        spec = (await admin.get(LEASES, lease_of(part), "kube-system"))["spec"]
        return bool(spec["renewTime"] != spec["acquireTime"])

    await until(was)


class Meddled(HttpClient):
    """A client that others get in the way of: ``before`` a request, and ``after`` it, when the answer may be lost."""

    def __init__(self, target: ClusterTarget, before: Meddling, after: Meddling | None = None) -> None:
        super().__init__(target)
        self._before, self._after = before, after

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        await self._before("create", resource, tree, subresource)
        answer = await super().create(resource, tree, namespace, name=name, subresource=subresource, dry_run=dry_run)
        if self._after is not None:
            await self._after("create", resource, tree, subresource)
        return answer

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        await self._before("update", resource, tree, subresource)
        return await super().update(resource, tree, subresource=subresource, dry_run=dry_run)


async def scraped(client: HttpClient, token: str) -> None:
    """What a component asks when somebody with a token wants its metrics."""
    assert await MetricsAuthorizer(client).review(token) == "forbidden", "it is known, and has no such permission"
