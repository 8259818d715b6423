"""A cluster that was restored from a backup, whose parts come back one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from allotment.cluster.client import Event, Listing, Resource
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import CLAIMS
from tests.unit.scheduler.world import SchedulingClient, claim, device_class, gpus, node, pod, world


class Halting(SchedulingClient):
    """A cluster that does not tell of claims for a while."""

    silent = False

    async def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        if self.silent and resource == CLAIMS:
            raise Unreachable("no claims today")
        return await super().list(resource, namespace, labels=labels, fields=fields, limit=limit)

    async def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Event]:
        if self.silent and resource == CLAIMS:
            raise Unreachable("no claims today")
        async for event in super().watch(resource, namespace, revision=revision, labels=labels, fields=fields):
            yield event


def test_no_device_is_given_twice_while_only_the_old_claims_are_known() -> None:
    async def story() -> None:
        client = Halting()
        objects = (node("a"), gpus("a", 2), device_class(), claim("both", count=2), claim("late"), pod("one", "both"))
        async with world(*objects, client=client) as lab:
            await lab.bound("one")
            restore = client.backup()
            lab.end("one")
            for number in range(100):  # a backup is older than what happens before somebody looks
                lab.put(*claim("other", labels={"number": str(number)}))
            lab.put(*pod("probe", "other"))
            await lab.bound("probe")  # so one of the two is known to be free
            client.silent = True
            restore()
            assert lab.devices("both") == ["gpu-0", "gpu-1"]
            lab.put(*pod("two", "late"))
            assert "the cluster was restored from a backup" in await lab.told("two", "SchedulerError")
            assert not lab.node_of("two")
            client.silent = False
            await lab.told("two")
            assert not lab.devices("late")
            lab.end("one")
            await lab.bound("two")

    asyncio.run(story())
