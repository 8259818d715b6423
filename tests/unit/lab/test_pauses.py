"""A lab that is suspended for a while loses no node and no pod; lost ones recover.

Controllers and nodes are one process. A pause is simulated in three ways: the monotonic clock advances while no task
runs (SIGSTOP, a debugger), only the wall clock advances (a suspended machine), or the wall clock is set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import Random

import pytest

from allotment.cluster.caches import Caches
from allotment.cluster.client import Client
from allotment.cluster.program import Program, ProgramContext, run
from allotment.cluster.recorder import Events
from allotment.cluster.resources import LEASES, NODES, PODS
from allotment.controllers.node_lifecycle import node_lifecycle
from allotment.controllers.pod_garbage_collector import pod_garbage
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED, Kubelets
from allotment.node.node_status import healthy_conditions
from tests.polling import until
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.node.world import Cluster

NODE_NAMES = ("n1", "n2")
UNREACHABLE = "node.kubernetes.io/unreachable"
#: The tolerations that admission adds to every pod.
FIVE_MINUTES = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
HOUR = 3600.0


def cluster() -> Cluster:
    """Two nodes, and a pod on each that tolerates a lost node for five minutes."""
    client = Cluster()
    for name in NODE_NAMES:
        metadata = {"name": name, "annotations": {SIMULATED: "true"}}
        status = {"conditions": healthy_conditions("2026-01-01T00:00:00Z"), "allocatable": {"cpu": "8"}}
        client.put(NODES, {"metadata": metadata, "spec": {}, "status": status})
        main = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
        spec = {"nodeName": name, "containers": [main], "tolerations": [FIVE_MINUTES]}
        client.put(PODS, {"metadata": {"name": f"on-{name}", "namespace": "ns"}, "spec": spec})
    return client


@asynccontextmanager
async def lab(client: Cluster, *programs: Program) -> AsyncIterator[None]:
    """The node controllers, with ``programs``; by default the kubelets."""
    clock, random = IdleClock(), Random(1)

    def client_for(name: str, manager: str = "") -> Client:
        return client

    context = ProgramContext(
        client_for, Caches(client, clock=clock, random=random), clock, Events(client, clock=clock), random
    )
    running = (node_lifecycle, pod_garbage, *(programs or (Kubelets().run,)))
    task = asyncio.create_task(run({str(number): program for number, program in enumerate(running)}, context))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def silent(context: ProgramContext) -> None:
    """A program that replaces the kubelets and does nothing."""
    await asyncio.get_running_loop().create_future()


def is_healthy(client: Cluster) -> bool:
    nodes = [tree for (kind, _, _), tree in client.objects.items() if kind == NODES]
    return all(ready(tree) == "True" and not tree["spec"].get("taints") for tree in nodes) and pods_ready(client)


def pods_ready(client: Cluster) -> bool:
    pods = {name: tree for (kind, _, name), tree in client.objects.items() if kind == PODS}
    return sorted(pods) == ["on-n1", "on-n2"] and all(ready(tree) == "True" for tree in pods.values())


def ready(tree: Tree) -> str:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return next((str(condition["status"]) for condition in conditions if condition["type"] == "Ready"), "")


def disruptions(client: Cluster, since: int) -> list[str]:
    """Changes of nodes and pods since a moment of the history."""
    changes = []
    for _, kind, event in client.history[since:]:
        name = event.object["metadata"]["name"]
        if kind == NODES and (ready(event.object) != "True" or event.object["spec"].get("taints")):
            changes.append(f"{name} was given up")
        elif kind == PODS and (event.type == "DELETED" or "deletionTimestamp" in event.object["metadata"]):
            changes.append(f"{name} was deleted")
    return changes


async def lost(client: Cluster) -> None:
    """Stop the heartbeats until the controller has marked the nodes and their pods as lost."""

    async with lab(client):
        await until(lambda: is_healthy(client), client.summary)
    async with lab(client, silent):
        await until(lambda: not pods_ready(client), client.summary, seconds=200, every=0.5)
        await asyncio.sleep(1)
    nodes = [client.objects[NODES, "", name] for name in NODE_NAMES]
    assert [ready(node) for node in nodes] == ["Unknown", "Unknown"]
    assert all((UNREACHABLE, "NoExecute") in taints(node) for node in nodes)


def taints(node: Tree) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or ()}


@pytest.mark.parametrize("seconds", [50, 3 * HOUR])
def test_a_suspended_process_loses_nothing(seconds: float) -> None:
    async def scenario() -> None:
        client = cluster()
        async with lab(client):
            await until(lambda: is_healthy(client), client.summary)
            before = len(client.history)
            for _ in range(3):
                await asyncio.sleep(7)  # not aligned with the leases
                idle.suspend(seconds)
                await asyncio.sleep(7)
            await asyncio.sleep(500)
            assert disruptions(client, before) == []
            assert is_healthy(client)

    idle.run(scenario())


@pytest.mark.parametrize("hours", [1, 1000, -1, -1000])
def test_adjusting_the_wall_clock_changes_nothing(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    leaps: list[timedelta] = []
    moment = IdleClock.moment
    monkeypatch.setattr(IdleClock, "moment", lambda clock: moment(clock) + sum(leaps, timedelta()))

    async def scenario() -> None:
        client = cluster()
        async with lab(client):
            await until(lambda: is_healthy(client), client.summary)
            before = len(client.history)
            await asyncio.sleep(7)
            leaps.append(timedelta(hours=hours))
            await asyncio.sleep(500)
            assert disruptions(client, before) == []
            assert is_healthy(client)
            renewed = {tree["spec"]["renewTime"] for (kind, _, _), tree in client.objects.items() if kind == LEASES}
            assert {time[:13] for time in renewed} == {IdleClock().now()[:13]}

    idle.run(scenario())


def test_lost_nodes_recover_with_their_kubelets() -> None:
    async def scenario() -> None:
        client = cluster()
        await lost(client)
        async with lab(client):  # a restart with the stored data
            await until(lambda: is_healthy(client), client.summary)
            before = len(client.history)
            await asyncio.sleep(1000)
            assert disruptions(client, before) == []

    idle.run(scenario())


def test_lost_nodes_recover_before_their_drivers() -> None:
    async def scenario() -> None:
        client = cluster()
        await lost(client)
        drivers = asyncio.Event()

        async def kubelets(context: ProgramContext) -> None:
            await Kubelets().run(context, drivers)

        async with lab(client, kubelets):
            await asyncio.sleep(1000)
            nodes = [client.objects[NODES, "", name] for name in NODE_NAMES]
            assert [(ready(node), taints(node)) for node in nodes] == [("True", set())] * 2
            assert not pods_ready(client)
            drivers.set()
            await until(lambda: is_healthy(client), client.summary)

    idle.run(scenario())


def test_nodes_without_heartbeats_are_still_lost() -> None:
    async def scenario() -> None:
        client = cluster()
        await lost(client)
        async with lab(client, silent):
            await until(
                lambda: not any(kind == PODS for kind, _, _ in client.objects), client.summary, seconds=500, every=0.5
            )

    idle.run(scenario())
