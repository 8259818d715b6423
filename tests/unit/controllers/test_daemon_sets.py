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


def status(here: World) -> Tree:
    found: Tree = here.get(DAEMON_SETS, "agent").get("status") or {}
    return found


def nodes(here: World) -> list[str]:
    """The nodes that pods were made for."""
    paths = [
        tree["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for tree in here.all(PODS)
    ]
    return sorted(path["nodeSelectorTerms"][0]["matchFields"][0]["values"][0] for path in paths)


def images(here: World) -> set[str]:
    return {tree["spec"]["containers"][0]["image"] for tree in here.all(PODS)}


def test_each_node_that_fits_gets_one_pod_as_nodes_come_and_go() -> None:
    async def story() -> None:
        async with world(daemon_sets, kubelet) as here:
            for name in ("n1", "n2"):
                here.put(NODES, node(name, gpu="yes"))
            here.put(NODES, node("plain"))
            here.put(DAEMON_SETS, daemon_set(pod={"nodeSelector": {"gpu": "yes"}}))
            await here.until(lambda: nodes(here) == ["n1", "n2"])
            here.put(NODES, node("n3", gpu="yes"))
            await here.until(lambda: nodes(here) == ["n1", "n2", "n3"])
            here.remove(NODES, "n1")
            here.put(NODES, node("n2"))
            await here.until(lambda: nodes(here) == ["n3"])
            await here.until(lambda: status(here).get("numberAvailable") == 1)
            assert status(here)["desiredNumberScheduled"] == 1

    idle.run(story())


def test_taints_keep_daemons_away_and_only_no_execute_drives_them_out() -> None:
    async def story() -> None:
        async with world(daemon_sets) as here:
            here.put(NODES, node("n1"))
            here.put(NODES, node("n2", {"key": "k", "effect": "NoSchedule"}))
            here.put(NODES, node("n3", {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}))
            here.put(DAEMON_SETS, daemon_set())
            await here.until(lambda: nodes(here) == ["n1", "n3"])
            here.put(NODES, node("n1", {"key": "k", "effect": "NoSchedule"}))
            await here.settled()
            assert nodes(here) == ["n1", "n3"]
            here.put(NODES, node("n1", {"key": "k", "effect": "NoExecute"}))
            await here.until(lambda: nodes(here) == ["n3"])

    idle.run(story())


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


def test_pods_that_fail_immediately_are_replaced_less_and_less_often() -> None:
    async def story() -> None:
        async with world(daemon_sets, rejecting) as here:
            here.put(NODES, node("n1"))
            here.put(DAEMON_SETS, daemon_set())
            made = 0
            for seconds, most in ((1, 3), (60, 10), (3600, 22)):
                await asyncio.sleep(seconds)
                made = sum(kind == PODS and event.type == "ADDED" for _, kind, event in here.client.history)
                assert made <= most, seconds
            assert made > 10, "they are replaced all the same"
            assert len(here.all(PODS)) == 1

    idle.run(story())


def test_an_update_replaces_one_pod_at_a_time() -> None:
    async def story() -> None:
        async with world(daemon_sets, kubelet) as here:
            for number in range(4):
                here.put(NODES, node(f"n{number}"))
            here.put(DAEMON_SETS, daemon_set())
            await here.until(lambda: status(here).get("numberAvailable") == 4)
            here.change(DAEMON_SETS, "agent", spec=spec(image="two"))
            await here.until(lambda: images(here) == {"two"} and len(here.all(PODS)) == 4)
            await here.until(lambda: status(here).get("updatedNumberScheduled") == 4)
            alive: set[str] = set()
            fewest = 4
            for _, resource, event in here.client.history:
                if resource == PODS:
                    (alive.discard if event.type == "DELETED" else alive.add)(event.object["metadata"]["name"])
                    if event.type == "DELETED":
                        fewest = min(fewest, len(alive))
            assert fewest == 3

    idle.run(story())


def test_an_update_with_surge_never_leaves_a_node_without() -> None:
    async def story() -> None:
        async with world(daemon_sets, kubelet) as here:
            for number in range(3):
                here.put(NODES, node(f"n{number}"))
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
            here.put(DAEMON_SETS, daemon_set(updateStrategy=strategy))
            await here.until(lambda: status(here).get("numberAvailable") == 3)
            here.change(DAEMON_SETS, "agent", spec=spec(image="two", updateStrategy=strategy))
            await here.until(lambda: images(here) == {"two"} and len(here.all(PODS)) == 3)
            available = [
                event.object["status"].get("numberAvailable", 0)
                for _, resource, event in here.client.history
                if resource == DAEMON_SETS and event.object.get("status", {}).get("updatedNumberScheduled")
            ]
            assert min(available[available.index(3) :]) == 3

    idle.run(story())


def test_on_delete_updates_only_deleted_pods() -> None:
    async def story() -> None:
        async with world(daemon_sets, kubelet) as here:
            here.put(NODES, node("n1"))
            here.put(DAEMON_SETS, daemon_set(updateStrategy={"type": "OnDelete"}))
            await here.until(lambda: status(here).get("numberAvailable") == 1)
            here.change(DAEMON_SETS, "agent", spec=spec(image="two", updateStrategy={"type": "OnDelete"}))
            await here.settled()
            assert images(here) == {"one"}
            here.remove(PODS, here.names(PODS)[0])
            await here.until(lambda: images(here) == {"two"})

    idle.run(story())
