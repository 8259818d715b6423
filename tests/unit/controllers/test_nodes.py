"""Unready nodes are tainted and drained; orphaned pods are deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import LEASES, NODES, PODS
from allotment.controllers.node_lifecycle import node_lifecycle
from allotment.controllers.pod_garbage_collector import pod_garbage
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, pod, world

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def node(ready: str = "", *taints: Tree, **spec: Any) -> Tree:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    tree: Tree = {"metadata": {"name": "n1"}, "spec": {**spec}, "status": {"conditions": conditions}}
    if taints:
        tree["spec"]["taints"] = list(taints)
    return tree


def taints(here: World) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in here.get(NODES, "n1")["spec"].get("taints") or ()}


def test_the_not_ready_taint_follows_the_ready_condition() -> None:
    async def story() -> None:
        async with world(node_lifecycle) as here:
            first = {"key": NOT_READY, "effect": "NoSchedule"}
            own = {"key": "example.com/own", "effect": "NoSchedule"}
            here.put(NODES, node("", first, own))
            await here.settled()
            assert taints(here) == {(NOT_READY, "NoSchedule"), ("example.com/own", "NoSchedule")}
            here.put(NODES, node("True", first, own))
            await here.until(lambda: taints(here) == {("example.com/own", "NoSchedule")})
            here.change(NODES, "n1", status={"conditions": [{"type": "Ready", "status": "False"}]})
            await here.until(lambda: (NOT_READY, "NoExecute") in taints(here))

    idle.run(story())


def test_cordoned_and_pressed_nodes_are_tainted() -> None:
    async def story() -> None:
        async with world(node_lifecycle) as here:
            tree = node("True", unschedulable=True)
            tree["status"]["conditions"].append({"type": "MemoryPressure", "status": "True"})
            here.put(NODES, tree)
            await here.until(
                lambda: (
                    taints(here)
                    == {
                        ("node.kubernetes.io/unschedulable", "NoSchedule"),
                        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
                    }
                )
            )
            here.put(NODES, {**node("True"), "spec": {"taints": here.get(NODES, "n1")["spec"]["taints"]}})
            await here.until(lambda: taints(here) == set())

    idle.run(story())


def test_a_node_whose_lease_is_not_renewed_is_unknown_and_its_pods_are_not_ready() -> None:
    async def story() -> None:
        async with world(node_lifecycle, speed=100) as here:
            here.put(NODES, node("True"))
            here.put(PODS, pod("p", node="n1", ready=True))
            here.client.put(LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}})
            await here.until(lambda: (UNREACHABLE, "NoExecute") in taints(here))
            [ready] = [one for one in here.get(NODES, "n1")["status"]["conditions"] if one["type"] == "Ready"]
            assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
            # It tolerates nothing, so it is evicted immediately.
            await here.until(lambda: here.names(PODS) == [])

    idle.run(story())


def test_a_node_that_reports_its_status_is_alive_though_its_lease_is_not_renewed() -> None:
    """As in Kubernetes: a kubelet whose Leases are refused is not given up, nor turned to and fro."""

    async def story() -> None:
        async with world(node_lifecycle) as here:
            here.put(NODES, node("True"))
            here.client.put(LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}})
            for number in range(10):
                await asyncio.sleep(30)
                heartbeat = f"2026-06-01T00:00:{number:02}Z"
                condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
                here.change(NODES, "n1", status={"conditions": [condition]})
            await here.settled()
            assert taints(here) == set()
            await asyncio.sleep(60)
            await here.until(lambda: (UNREACHABLE, "NoExecute") in taints(here))

    idle.run(story())


def test_toleration_time_excludes_process_suspension() -> None:
    async def story() -> None:
        async with world(node_lifecycle) as here:
            here.put(NODES, node("True"))
            toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            here.put(PODS, pod("p", node="n1", spec={"tolerations": [toleration]}))
            await here.settled()
            here.put(NODES, node("True", {"key": "k", "effect": "NoExecute"}))
            await asyncio.sleep(100)
            idle.stand_still(3600)
            await asyncio.sleep(190)
            assert here.names(PODS) == ["p"]
            await asyncio.sleep(20)
            assert here.names(PODS) == []

    idle.run(story())


def test_no_pod_is_evicted_for_a_taint_about_to_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that starts again on old data finds the taint of a node that is ready by now."""

    async def story() -> None:
        begin = asyncio.Event()

        async def later(context: ProgramContext) -> None:
            await begin.wait()
            await node_lifecycle(context)

        async with world(later) as here:
            update = here.client.update

            async def slow(resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
                await asyncio.sleep(resource == NODES)
                return await update(resource, tree, subresource=subresource, dry_run=dry_run)

            monkeypatch.setattr(here.client, "update", slow)
            here.put(NODES, node("True", {"key": UNREACHABLE, "effect": "NoExecute"}))
            here.put(PODS, pod("p", node="n1"))
            await here.settled()
            begin.set()
            await here.until(lambda: taints(here) == set())
            await asyncio.sleep(60)
            assert here.names(PODS) == ["p"]
            here.change(NODES, "n1", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
            await here.until(lambda: here.names(PODS) == [])

    idle.run(story())


def test_a_node_without_a_lease_keeps_its_conditions() -> None:
    async def story() -> None:
        async with world(node_lifecycle, speed=1000) as here:
            here.put(NODES, node("True"))
            await asyncio.sleep(0.2)
            assert here.get(NODES, "n1")["status"]["conditions"] == [{"type": "Ready", "status": "True"}]

    idle.run(story())


def test_pods_without_toleration_are_evicted_from_a_tainted_node() -> None:
    async def story() -> None:
        async with world(node_lifecycle) as here:
            here.put(NODES, node("True"))
            toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
            here.put(PODS, pod("stays", node="n1", spec={"tolerations": [toleration]}))
            limited = {**toleration, "tolerationSeconds": 1000}
            here.put(PODS, pod("later", node="n1", spec={"tolerations": [limited]}))
            here.put(PODS, pod("goes", node="n1"))
            await here.settled()
            here.put(NODES, node("True", {"key": "k", "effect": "NoExecute"}))
            await here.until(lambda: here.names(PODS) == ["later", "stays"])
            await here.until(lambda: here.events("TaintManagerEviction") == ["Marking for deletion Pod ns/goes"])
            here.put(NODES, node("True"))
            await here.until(lambda: "Cancelling deletion of Pod ns/later" in here.events("TaintManagerEviction"))

    idle.run(story())


def test_a_pod_is_evicted_after_its_toleration_seconds() -> None:
    async def story() -> None:
        async with world(node_lifecycle, speed=50) as here:
            here.put(NODES, node("True"))
            toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
            here.put(PODS, pod("p", node="n1", spec={"tolerations": [{**toleration, "tolerationSeconds": 10}]}))
            # Of several tolerations the first that fits counts.
            longer = [{**toleration, "tolerationSeconds": 3000}, {**toleration, "tolerationSeconds": 0}]
            here.put(PODS, pod("q", node="n1", spec={"tolerations": longer}))
            await here.settled()
            here.put(NODES, node("True", {"key": "k", "effect": "NoExecute"}))
            await here.settled()
            assert here.names(PODS) == ["p", "q"]
            await here.until(lambda: here.names(PODS) == ["q"])

    idle.run(story())


def test_pods_of_a_deleted_node_are_failed_and_deleted() -> None:
    async def story() -> None:
        async with world(pod_garbage, speed=400) as here:
            here.put(NODES, node("True"))
            here.put(PODS, pod("p", node="n1", ready=True))
            here.put(PODS, pod("never", node="nowhere"))
            here.put(PODS, pod("waits"))
            await here.settled()
            here.remove(NODES, "n1")
            await here.until(lambda: here.names(PODS) == ["waits"])
            last = {e.object["metadata"]["name"]: e.object["status"] for _, r, e in here.client.history if r == PODS}
            assert last["p"]["phase"] == "Failed"
            assert last["p"]["conditions"][-1]["message"] == "PodGC: node no longer exists"

    idle.run(story())


def test_an_unscheduled_terminating_pod_is_deleted() -> None:
    async def story() -> None:
        async with world(pod_garbage) as here:
            here.put(PODS, pod("p", finalizers=["example.com/wait"]))
            await here.client.delete(PODS, "p", "ns")
            await here.until(lambda: here.get(PODS, "p")["status"].get("phase") == "Failed")

    idle.run(story())
