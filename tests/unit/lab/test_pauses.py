"""A lab that is suspended for a while loses no node and no pod; one that has lost them gets them back.

Controllers and nodes are one process. A pause is made in three ways: the event loop's clock goes on while nothing runs
(SIGSTOP, a debugger), the clock of the wall alone goes on (a machine that sleeps), or it is set back.
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
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.node.world import Cluster
from tests.waiting import until

NODE_NAMES = ("n1", "n2")
UNREACHABLE = "node.kubernetes.io/unreachable"
#: What admission gives every pod.
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
    """In place of the kubelets."""
    await asyncio.get_running_loop().create_future()


def all_is_well(client: Cluster) -> bool:
    nodes = [tree for (kind, _, _), tree in client.objects.items() if kind == NODES]
    return all(ready(tree) == "True" and not tree["spec"].get("taints") for tree in nodes) and pods_ready(client)


def pods_ready(client: Cluster) -> bool:
    pods = {name: tree for (kind, _, name), tree in client.objects.items() if kind == PODS}
    return sorted(pods) == ["on-n1", "on-n2"] and all(ready(tree) == "True" for tree in pods.values())


def ready(tree: Tree) -> str:
    conditions = (tree.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == "Ready"), "")


def harm(client: Cluster, since: int) -> list[str]:
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
    """The nodes fall silent until the controller has given them up, their pods with them."""

    async with lab(client):
        await until(lambda: all_is_well(client), client.standing)
    async with lab(client, silent):
        await until(lambda: not pods_ready(client), client.standing, seconds=200)
        await asyncio.sleep(1)
    nodes = [client.objects[NODES, "", name] for name in NODE_NAMES]
    assert [ready(node) for node in nodes] == ["Unknown", "Unknown"]
    assert all((UNREACHABLE, "NoExecute") in taints(node) for node in nodes)


def taints(node: Tree) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or ()}


@pytest.mark.parametrize("seconds", [50, 3 * HOUR])
def test_a_process_that_stood_still_has_lost_nothing(seconds: float) -> None:
    async def story() -> None:
        client = cluster()
        async with lab(client):
            await until(lambda: all_is_well(client), client.standing)
            before = len(client.history)
            for _ in range(3):
                await asyncio.sleep(7)  # not in step with the leases
                idle.stand_still(seconds)
                await asyncio.sleep(7)
            await asyncio.sleep(500)
            assert harm(client, before) == []
            assert all_is_well(client)

    idle.run(story())


@pytest.mark.parametrize("hours", [1, 1000, -1, -1000])
def test_a_clock_of_the_wall_that_is_set_changes_nothing(hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    leaps: list[timedelta] = []
    moment = IdleClock.moment
    monkeypatch.setattr(IdleClock, "moment", lambda clock: moment(clock) + sum(leaps, timedelta()))

    async def story() -> None:
        client = cluster()
        async with lab(client):
            await until(lambda: all_is_well(client), client.standing)
            before = len(client.history)
            await asyncio.sleep(7)
            leaps.append(timedelta(hours=hours))
            await asyncio.sleep(500)
            assert harm(client, before) == []
            assert all_is_well(client)
            renewed = {tree["spec"]["renewTime"] for (kind, _, _), tree in client.objects.items() if kind == LEASES}
            assert {time[:13] for time in renewed} == {IdleClock().now()[:13]}

    idle.run(story())


def test_nodes_that_were_lost_come_back_with_their_kubelets() -> None:
    async def story() -> None:
        client = cluster()
        await lost(client)
        async with lab(client):  # a restart on the data that the pause has left
            await until(lambda: all_is_well(client), client.standing)
            before = len(client.history)
            await asyncio.sleep(1000)
            assert harm(client, before) == []

    idle.run(story())


def test_nodes_that_were_lost_come_back_before_their_drivers_do() -> None:
    async def story() -> None:
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
            await until(lambda: all_is_well(client), client.standing)

    idle.run(story())


def test_silent_nodes_are_still_lost() -> None:
    async def story() -> None:
        client = cluster()
        await lost(client)
        async with lab(client, silent):
            await until(lambda: not any(kind == PODS for kind, _, _ in client.objects), client.standing, seconds=500)

    idle.run(story())
