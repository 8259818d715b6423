"""Runs the components in the scenarios that exercise all of their requests; a scenario ends when the cluster shows the
result.

Each scenario covers every request of its component, including those after a conflict or a lost answer. A new request in
a program needs a step in its scenario, because permissions that no scenario uses count as excessive.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, Final

from allotment.cluster import program
from allotment.cluster.caches import Caches
from allotment.cluster.client import Client, Resource
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.leader_election import LeaderElection, LeaseTimings
from allotment.cluster.program import Program, ProgramContext
from allotment.cluster.recorder import Events
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.version_negotiation import ApiClient, NegotiatingClient
from allotment.cluster.resources import LEASES, PODS
from allotment.components.diagnostic_endpoints import MetricsAuthorizer
from allotment.model.trees import Tree
from allotment.permissions.components import lease_of

#: Called with verb, resource, object and subresource.
RequestHook = Callable[[str, Resource, Tree, str], Awaitable[None]]

#: The programs' clocks run faster by this factor.
SPEED: Final = 10.0
#: Short renewal periods, and a lease duration that survives a loaded machine.
_TERMS: Final = LeaseTimings(lease=300, renew=200, retry=0.1)


@contextlib.asynccontextmanager
async def running_component(
    client: ApiClient, component: str, run: Program, *, leads: bool = True
) -> AsyncIterator[ProgramContext]:
    """Run a component's program with a client's permissions; where several copies may run, as the leader."""
    clock, random = Clock(SPEED), Random()
    negotiating = NegotiatingClient(client)
    caches = Caches(negotiating, clock=clock, random=random)
    context = ProgramContext(lambda name, manager="": negotiating, caches, clock, Events(client, clock=clock), random)
    election = LeaderElection(client, lease_of(component), "scenario", clock=Clock(), random=random, terms=_TERMS)

    async def alone() -> None:
        await program.run({component: run}, context)

    task = asyncio.create_task(election.run(alone) if leads else alone())
    try:
        yield context
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def wait_until(true: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a condition holds; the caller limits the time."""
    while True:
        with contextlib.suppress(StatusError):
            if found := await true():
                return found
        await asyncio.sleep(0.03)


async def wait_for_repeat(times: Callable[[], Awaitable[int]]) -> None:
    """Wait until an event that was written is repeated: two occurrences before the first write need only one
    request."""
    first: int = await wait_until(times)

    async def more() -> bool:
        return await times() > first

    await wait_until(more)


async def is_leaving(admin: Client, pod: str) -> bool:
    """Whether a pod is being deleted or is deleted."""
    found = (await admin.list(PODS, "default", fields=f"metadata.name={pod}")).items
    return all("deletionTimestamp" in item["metadata"] for item in found)


async def wait_for_lease(admin: Client, component: str) -> None:
    """Wait until a component has acquired its Lease and renewed it."""

    async def was() -> bool:
        spec = (await admin.get(LEASES, lease_of(component), "kube-system"))["spec"]
        return bool(spec["renewTime"] != spec["acquireTime"])

    await wait_until(was)


class InterferingClient(HttpClient):
    """A client whose requests conflict: ``before`` runs before a request, and ``after`` after it, when its answer may
    be lost."""

    def __init__(self, target: ClusterTarget, before: RequestHook, after: RequestHook | None = None) -> None:
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


async def scrape(client: HttpClient, token: str) -> None:
    """The requests of a component when a client with a token scrapes its metrics."""
    assert await MetricsAuthorizer(client).review(token) == "forbidden", "it is known, and has no such permission"
