"""Several replicas: one leads, another one takes over, and no machine is ordered twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from allotment.autoscaler.options import NAME
from allotment.cluster.resources import LEASES, PODS
from tests.unit.autoscaler.world import NAMESPACE, ClusterClient, CrashingClient, World, options, waiting_pod, world
from tests.unit.cluster import idle


def leader(client: ClusterClient) -> str:
    leases = [tree for (kind, _, name), tree in client.objects.items() if kind == LEASES and name == NAME]
    return str(leases[0]["spec"].get("holderIdentity", "")) if leases else ""


def nominated(cluster: World, number: int) -> set[str]:
    return {name for pod in range(number) if (name := cluster.nominated(f"p{pod}"))}


@pytest.mark.parametrize("writes", [3, 5, 7, 9, 11])
def test_after_a_crash_of_the_leader_the_other_replica_continues(writes: int) -> None:
    async def test() -> None:
        client = ClusterClient()
        for number in range(2):
            client.put(PODS, waiting_pod(f"p{number}"))
        chosen = options(namespace=NAMESPACE)
        async with AsyncExitStack() as copies:
            await copies.enter_async_context(
                world(chosen, 100, CrashingClient(client, writes, before=False), identity="first")
            )
            await asyncio.sleep(0.02)
            cluster = await copies.enter_async_context(world(chosen, 100, client, identity="second"))
            await cluster.until(lambda: leader(client) == "first")
            await cluster.until(lambda: leader(client) == "second")
            await cluster.until(lambda: len(nominated(cluster, 2)) == 2)
            await cluster.after(30)
            assert sorted(cluster.orders()) == sorted(cluster.provider_machines()) == sorted(cluster.machines())
            assert nominated(cluster, 2) == set(cluster.machines())

    idle.run(test())


def test_a_replica_without_the_lease_does_nothing() -> None:
    async def test() -> None:
        client = ClusterClient()
        async with AsyncExitStack() as copies:
            for identity in ("first", "second", "third"):
                chosen = options(namespace=NAMESPACE)
                cluster = await copies.enter_async_context(world(chosen, 60, client, identity=identity))
            for number in range(5):
                cluster.pod(f"p{number}")
            await cluster.until(lambda: len(nominated(cluster, 5)) == 5)
            await cluster.after(20)
            assert len(cluster.machines()) == len(cluster.orders()) == len(cluster.provider_machines()) == 5

    idle.run(test())
