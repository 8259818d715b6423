"""A DaemonSet has one pod on each eligible node."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import DAEMON_SETS, NODES, PODS
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.daemon_sets import daemon_sets
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, kubelet, world


def spec(image: str = "one", pod: Tree | None = None, **more: Any) -> Tree:
    containers = [{"name": "c", "image": image}]
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": containers, **(pod or {})}}
    return {"selector": {"matchLabels": {"app": "agent"}}, "template": template, **more}


def daemon_set(**fields: Any) -> Tree:
    return {"metadata": {"name": "agent", "generation": 1}, "spec": spec(**fields)}


def node(name: str, *taints: Tree, **labels: str) -> Tree:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def status(cluster: World) -> Tree:
    found: Tree = cluster.get(DAEMON_SETS, "agent").get("status") or {}
    return found


def nodes(cluster: World) -> list[str]:
    """The nodes that pods were made for."""
    paths = [
        tree["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for tree in cluster.all(PODS)
    ]
    return sorted(path["nodeSelectorTerms"][0]["matchFields"][0]["values"][0] for path in paths)


def images(cluster: World) -> set[str]:
    return {tree["spec"]["containers"][0]["image"] for tree in cluster.all(PODS)}


def test_each_node_that_fits_gets_one_pod_as_nodes_come_and_go() -> None:
    async def scenario() -> None:
        async with world(daemon_sets, kubelet) as cluster:
            for name in ("n1", "n2"):
                cluster.put(NODES, node(name, gpu="yes"))
            cluster.put(NODES, node("plain"))
            cluster.put(DAEMON_SETS, daemon_set(pod={"nodeSelector": {"gpu": "yes"}}))
            await cluster.until(lambda: nodes(cluster) == ["n1", "n2"])
            cluster.put(NODES, node("n3", gpu="yes"))
            await cluster.until(lambda: nodes(cluster) == ["n1", "n2", "n3"])
            cluster.remove(NODES, "n1")
            cluster.put(NODES, node("n2"))
            await cluster.until(lambda: nodes(cluster) == ["n3"])
            await cluster.until(lambda: status(cluster).get("numberAvailable") == 1)
            assert status(cluster)["desiredNumberScheduled"] == 1

    idle.run(scenario())


def test_taints_exclude_daemons_and_only_no_execute_evicts_them() -> None:
    async def scenario() -> None:
        async with world(daemon_sets) as cluster:
            cluster.put(NODES, node("n1"))
            cluster.put(NODES, node("n2", {"key": "k", "effect": "NoSchedule"}))
            cluster.put(NODES, node("n3", {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}))
            cluster.put(DAEMON_SETS, daemon_set())
            await cluster.until(lambda: nodes(cluster) == ["n1", "n3"])
            cluster.put(NODES, node("n1", {"key": "k", "effect": "NoSchedule"}))
            await cluster.settled()
            assert nodes(cluster) == ["n1", "n3"]
            cluster.put(NODES, node("n1", {"key": "k", "effect": "NoExecute"}))
            await cluster.until(lambda: nodes(cluster) == ["n3"])

    idle.run(scenario())


async def rejecting(context: ProgramContext) -> None:
    """A node that rejects every pod."""
    client = context.client_for("node")
    pods = context.caches.trees(PODS)

    async def reject(key: tuple[str, str]) -> None:
        item = pods.item(*key)
        if item is not None and not item.status:
            status = {"phase": "Failed", "reason": "NodeAffinity"}
            await client.update(PODS, {**item.tree, "status": status}, subresource="status")

    queue: WorkQueue[tuple[str, str]] = WorkQueue("kubelet", reject, clock=context.clock, random=context.random)
    await run_queues([queue], [(pods, lambda old, new: queue.add(new.key) if new else None)])


def test_pods_that_fail_immediately_are_replaced_with_back_off() -> None:
    async def scenario() -> None:
        async with world(daemon_sets, rejecting) as cluster:
            cluster.put(NODES, node("n1"))
            cluster.put(DAEMON_SETS, daemon_set())
            made = 0
            for seconds, most in ((1, 3), (60, 10), (3600, 22)):
                await asyncio.sleep(seconds)
                made = sum(kind == PODS and event.type == "ADDED" for _, kind, event in cluster.client.history)
                assert made <= most, seconds
            assert made > 10, "they are replaced nevertheless"
            assert len(cluster.all(PODS)) == 1

    idle.run(scenario())


def test_an_update_replaces_one_pod_at_a_time() -> None:
    async def scenario() -> None:
        async with world(daemon_sets, kubelet) as cluster:
            for number in range(4):
                cluster.put(NODES, node(f"n{number}"))
            cluster.put(DAEMON_SETS, daemon_set())
            await cluster.until(lambda: status(cluster).get("numberAvailable") == 4)
            cluster.change(DAEMON_SETS, "agent", spec=spec(image="two"))
            await cluster.until(lambda: images(cluster) == {"two"} and len(cluster.all(PODS)) == 4)
            await cluster.until(lambda: status(cluster).get("updatedNumberScheduled") == 4)
            alive: set[str] = set()
            fewest = 4
            for _, resource, event in cluster.client.history:
                if resource == PODS:
                    (alive.discard if event.type == "DELETED" else alive.add)(event.object["metadata"]["name"])
                    if event.type == "DELETED":
                        fewest = min(fewest, len(alive))
            assert fewest == 3

    idle.run(scenario())


def test_an_update_with_surge_never_leaves_a_node_without() -> None:
    async def scenario() -> None:
        async with world(daemon_sets, kubelet) as cluster:
            for number in range(3):
                cluster.put(NODES, node(f"n{number}"))
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
            cluster.put(DAEMON_SETS, daemon_set(updateStrategy=strategy))
            await cluster.until(lambda: status(cluster).get("numberAvailable") == 3)
            cluster.change(DAEMON_SETS, "agent", spec=spec(image="two", updateStrategy=strategy))
            await cluster.until(lambda: images(cluster) == {"two"} and len(cluster.all(PODS)) == 3)
            available = [
                event.object["status"].get("numberAvailable", 0)
                for _, resource, event in cluster.client.history
                if resource == DAEMON_SETS and event.object.get("status", {}).get("updatedNumberScheduled")
            ]
            assert min(available[available.index(3) :]) == 3

    idle.run(scenario())


def test_on_delete_updates_only_deleted_pods() -> None:
    async def scenario() -> None:
        async with world(daemon_sets, kubelet) as cluster:
            cluster.put(NODES, node("n1"))
            cluster.put(DAEMON_SETS, daemon_set(updateStrategy={"type": "OnDelete"}))
            await cluster.until(lambda: status(cluster).get("numberAvailable") == 1)
            cluster.change(DAEMON_SETS, "agent", spec=spec(image="two", updateStrategy={"type": "OnDelete"}))
            await cluster.settled()
            assert images(cluster) == {"one"}
            cluster.remove(PODS, cluster.names(PODS)[0])
            await cluster.until(lambda: images(cluster) == {"two"})

    idle.run(scenario())
