"""At most one copy leads; another takes over when the leader is gone."""

from __future__ import annotations

import asyncio
from random import Random

from allotment.cluster.clock import Clock
from allotment.cluster.election import LeaderElection, Terms
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import LEASES
from tests.unit.cluster.memory import MemoryClient

FAST = Clock(speed=100)
TERMS = Terms(lease=3, renew=2.0, retry=0.4)


class Copy:
    def __init__(self, client: MemoryClient, name: str, leading: list[str]) -> None:
        self.client = client
        self.name = name
        self.leading = leading
        self.election = LeaderElection(client, "controllers", name, clock=FAST, random=Random(1), terms=TERMS)
        self.task = asyncio.create_task(self.election.run(self._lead))

    async def _lead(self) -> None:
        assert self.leading == []
        self.leading.append(self.name)
        try:
            await asyncio.Event().wait()
        finally:
            self.leading.remove(self.name)


def test_the_next_copy_leads_when_the_leader_is_gone() -> None:
    async def story() -> None:
        client = MemoryClient()
        leading: list[str] = []
        first, second = Copy(client, "first", leading), Copy(client, "second", leading)
        await asyncio.sleep(0.05)
        assert leading == ["first"]
        first.task.cancel()
        await asyncio.sleep(0.005)
        assert leading == []
        await asyncio.sleep(0.1)
        assert leading == ["second"]
        lease = client.objects[LEASES, "kube-system", "controllers"]
        assert lease["spec"]["holderIdentity"] == "second"
        assert lease["spec"]["leaseTransitions"] == 1
        second.task.cancel()

    asyncio.run(story())


def test_a_leader_that_cannot_renew_stops_in_time_and_leads_again_when_it_can() -> None:
    async def story() -> None:
        client = MemoryClient()
        leading: list[str] = []
        first = Copy(client, "first", leading)
        await asyncio.sleep(0.02)
        assert leading == ["first"]
        client.refuse = [Unreachable("no route")] * 12
        await asyncio.sleep(0.04)
        assert leading == []
        await asyncio.sleep(0.1)
        assert leading == ["first"]
        first.task.cancel()

    asyncio.run(story())


def test_a_released_lease_is_taken_at_once() -> None:
    async def story() -> None:
        client = MemoryClient()
        leading: list[str] = []
        first = Copy(client, "first", leading)
        await asyncio.sleep(0.01)
        first.task.cancel()
        await asyncio.sleep(0)
        await first.election.release()
        second = Copy(client, "second", leading)
        await asyncio.sleep(0.01)
        assert leading == ["second"]
        second.task.cancel()

    asyncio.run(story())
