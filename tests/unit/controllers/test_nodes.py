"""Unready nodes are tainted and drained; orphaned pods are deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import LEASES, NODES, PODS
from allotment.controllers.node_lifecycle import RunningTime, node_lifecycle
from allotment.controllers.pod_garbage_collector import pod_garbage
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.controllers.world import World, pod, world

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


def node(ready: str = "", *taints: Tree, **spec: Any) -> Tree:
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    tree: Tree = {"metadata": {"name": "n1"}, "spec": {**spec}, "status": {"conditions": conditions}}
    if taints:
        tree["spec"]["taints"] = list(taints)
    return tree


def alive(cluster: World) -> None:
    """A Lease that does not expire in a test."""
    spec = {"leaseDurationSeconds": 100_000}
    cluster.client.put(LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": spec})


def taints(cluster: World) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in cluster.get(NODES, "n1")["spec"].get("taints") or ()}


def test_the_not_ready_taint_follows_the_ready_condition() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle) as cluster:
            first = {"key": NOT_READY, "effect": "NoSchedule"}
            own = {"key": "example.com/own", "effect": "NoSchedule"}
            cluster.put(NODES, node("", first, own))
            await cluster.settled()
            assert taints(cluster) == {(NOT_READY, "NoSchedule"), ("example.com/own", "NoSchedule")}
            cluster.put(NODES, node("True", first, own))
            await cluster.until(lambda: taints(cluster) == {("example.com/own", "NoSchedule")})
            cluster.change(NODES, "n1", status={"conditions": [{"type": "Ready", "status": "False"}]})
            await cluster.until(lambda: (NOT_READY, "NoExecute") in taints(cluster))

    idle.run(scenario())


def test_cordoned_and_pressed_nodes_are_tainted() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle) as cluster:
            tree = node("True", unschedulable=True)
            tree["status"]["conditions"].append({"type": "MemoryPressure", "status": "True"})
            cluster.put(NODES, tree)
            await cluster.until(
                lambda: (
                    taints(cluster)
                    == {
                        ("node.kubernetes.io/unschedulable", "NoSchedule"),
                        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
                    }
                )
            )
            cluster.put(NODES, {**node("True"), "spec": {"taints": cluster.get(NODES, "n1")["spec"]["taints"]}})
            await cluster.until(lambda: taints(cluster) == set())

    idle.run(scenario())


def test_a_node_whose_lease_is_not_renewed_is_unknown_and_its_pods_are_not_ready() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle, speed=100) as cluster:
            cluster.put(NODES, node("True"))
            cluster.put(PODS, pod("p", node="n1", ready=True))
            cluster.client.put(LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}})
            await cluster.until(lambda: (UNREACHABLE, "NoExecute") in taints(cluster))
            [ready] = [
                condition
                for condition in cluster.get(NODES, "n1")["status"]["conditions"]
                if condition["type"] == "Ready"
            ]
            assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
            # It tolerates nothing, so it is evicted immediately.
            await cluster.until(lambda: cluster.names(PODS) == [])

    idle.run(scenario())


def test_a_node_that_reports_its_status_is_alive_though_its_lease_is_not_renewed() -> None:
    """As in Kubernetes, a kubelet whose Lease updates are rejected stays ready without flapping."""

    async def scenario() -> None:
        async with world(node_lifecycle) as cluster:
            cluster.put(NODES, node("True"))
            cluster.client.put(LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}})
            for number in range(10):
                await asyncio.sleep(30)
                heartbeat = f"2026-06-01T00:00:{number:02}Z"
                condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}
                cluster.change(NODES, "n1", status={"conditions": [condition]})
            await cluster.settled()
            assert taints(cluster) == set()
            await asyncio.sleep(60)
            await cluster.until(lambda: (UNREACHABLE, "NoExecute") in taints(cluster))

    idle.run(scenario())


def test_toleration_time_excludes_process_suspension() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle) as cluster:
            cluster.put(NODES, node("True"))
            alive(cluster)
            toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            cluster.put(PODS, pod("p", node="n1", spec={"tolerations": [toleration]}))
            await cluster.settled()
            cluster.put(NODES, node("True", {"key": "k", "effect": "NoExecute"}))
            await asyncio.sleep(100)
            idle.suspend(3600)
            await asyncio.sleep(190)
            assert cluster.names(PODS) == ["p"]
            await asyncio.sleep(20)
            assert cluster.names(PODS) == []

    idle.run(scenario())


def test_no_pod_is_evicted_for_a_taint_about_to_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted lab finds the old taint of a node that is ready by now."""

    async def scenario() -> None:
        begin = asyncio.Event()

        async def later(context: ProgramContext) -> None:
            await begin.wait()
            await node_lifecycle(context)

        async with world(later) as cluster:
            update = cluster.client.update

            async def slow(resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
                await asyncio.sleep(resource == NODES)
                return await update(resource, tree, subresource=subresource, dry_run=dry_run)

            monkeypatch.setattr(cluster.client, "update", slow)
            cluster.put(NODES, node("True", {"key": UNREACHABLE, "effect": "NoExecute"}))
            alive(cluster)
            cluster.put(PODS, pod("p", node="n1"))
            await cluster.settled()
            begin.set()
            await cluster.until(lambda: taints(cluster) == set())
            await asyncio.sleep(60)
            assert cluster.names(PODS) == ["p"]
            cluster.change(NODES, "n1", status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
            await cluster.until(lambda: cluster.names(PODS) == [])

    idle.run(scenario())


@pytest.mark.parametrize("speed", [1, 100])
def test_a_node_without_a_kubelet_becomes_unknown(speed: float) -> None:
    async def scenario() -> None:
        async with world(node_lifecycle, speed=speed) as cluster:
            cluster.put(NODES, node("True"))
            cluster.put(NODES, {"metadata": {"name": "new"}, "spec": {}, "status": {}})
            await asyncio.sleep(49)
            assert cluster.get(NODES, "n1")["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
            await asyncio.sleep(2)
            assert conditions(cluster, "n1")["Ready"] == ("Unknown", "NodeStatusUnknown")
            assert conditions(cluster, "n1")["DiskPressure"] == ("Unknown", "NodeStatusNeverUpdated")
            assert conditions(cluster, "new") == {}
            await asyncio.sleep(10)
            assert conditions(cluster, "new")["Ready"] == ("Unknown", "NodeStatusNeverUpdated")
            assert (UNREACHABLE, "NoExecute") in taints(cluster)

    idle.run(scenario())


def test_a_node_whose_lease_is_deleted_becomes_unknown() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle) as cluster:
            cluster.put(NODES, node("True"))
            cluster.client.put(LEASES, {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}})
            await cluster.settled()
            cluster.client.remove(LEASES, "kube-node-lease", "n1")
            await asyncio.sleep(60)
            assert conditions(cluster, "n1")["Ready"] == ("Unknown", "NodeStatusUnknown")

    idle.run(scenario())


def conditions(cluster: World, name: str) -> dict[str, tuple[str, str]]:
    """Status and reason of the conditions of a node."""
    found = cluster.get(NODES, name)["status"].get("conditions") or ()
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in found}


def test_pods_without_toleration_are_evicted_from_a_tainted_node() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle) as cluster:
            cluster.put(NODES, node("True"))
            toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
            cluster.put(PODS, pod("stays", node="n1", spec={"tolerations": [toleration]}))
            limited = {**toleration, "tolerationSeconds": 1000}
            cluster.put(PODS, pod("later", node="n1", spec={"tolerations": [limited]}))
            cluster.put(PODS, pod("goes", node="n1"))
            await cluster.settled()
            cluster.put(NODES, node("True", {"key": "k", "effect": "NoExecute"}))
            await cluster.until(lambda: cluster.names(PODS) == ["later", "stays"])
            await cluster.until(lambda: cluster.events("TaintManagerEviction") == ["Marking for deletion Pod ns/goes"])
            cluster.put(NODES, node("True"))
            await cluster.until(lambda: "Cancelling deletion of Pod ns/later" in cluster.events("TaintManagerEviction"))

    idle.run(scenario())


def test_a_pod_is_evicted_after_its_toleration_seconds() -> None:
    async def scenario() -> None:
        async with world(node_lifecycle, speed=50) as cluster:
            cluster.put(NODES, node("True"))
            toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute"}
            cluster.put(PODS, pod("p", node="n1", spec={"tolerations": [{**toleration, "tolerationSeconds": 10}]}))
            # The first matching toleration is used.
            longer = [{**toleration, "tolerationSeconds": 3000}, {**toleration, "tolerationSeconds": 0}]
            cluster.put(PODS, pod("q", node="n1", spec={"tolerations": longer}))
            await cluster.settled()
            cluster.put(NODES, node("True", {"key": "k", "effect": "NoExecute"}))
            await cluster.settled()
            assert cluster.names(PODS) == ["p", "q"]
            await cluster.until(lambda: cluster.names(PODS) == ["q"])

    idle.run(scenario())


def test_pods_of_a_deleted_node_are_failed_and_deleted() -> None:
    async def scenario() -> None:
        async with world(pod_garbage, speed=400) as cluster:
            cluster.put(NODES, node("True"))
            cluster.put(PODS, pod("p", node="n1", ready=True))
            cluster.put(PODS, pod("never", node="nowhere"))
            cluster.put(PODS, pod("waits"))
            await cluster.settled()
            cluster.remove(NODES, "n1")
            await cluster.until(lambda: cluster.names(PODS) == ["waits"])
            last = {e.object["metadata"]["name"]: e.object["status"] for _, r, e in cluster.client.history if r == PODS}
            assert last["p"]["phase"] == "Failed"
            assert last["p"]["conditions"][-1]["message"] == "PodGC: node no longer exists"

    idle.run(scenario())


def test_an_unscheduled_terminating_pod_is_deleted() -> None:
    async def scenario() -> None:
        async with world(pod_garbage) as cluster:
            cluster.put(PODS, pod("p", finalizers=["example.com/wait"]))
            await cluster.client.delete(PODS, "p", "ns")
            await cluster.until(lambda: cluster.get(PODS, "p")["status"].get("phase") == "Failed")

    idle.run(scenario())


@pytest.mark.parametrize(("speed", "step"), [(0.5, 0.5), (1, 1), (20, 5), (1000, 100)])
def test_a_pause_counts_for_no_more_than_a_step(speed: float, step: float) -> None:
    async def scenario() -> None:
        time = RunningTime(IdleClock(speed))
        task = asyncio.create_task(time.run())
        await asyncio.sleep(100)
        assert time.seconds() == pytest.approx(100 * speed)
        await asyncio.sleep(0.03)
        before = time.seconds()
        idle.suspend(3600)
        assert before < time.seconds() <= before + step
        await asyncio.sleep(100)
        assert time.seconds() <= before + step + 100 * speed
        task.cancel()

    idle.run(scenario())


@pytest.mark.parametrize(("pause", "lines"), [(2, 0), (50, 1)])
def test_a_long_pause_is_logged(pause: float, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        time = RunningTime(IdleClock())
        task = asyncio.create_task(time.run())
        await asyncio.sleep(10)
        idle.suspend(pause)
        await asyncio.sleep(10)
        task.cancel()

    caplog.set_level(logging.INFO)
    idle.run(scenario())
    assert len(caplog.records) == lines
    assert all("was suspended for 50 s" in record.message for record in caplog.records)
