"""Machines that are not needed are released: gradually, within budgets, and only if their pods fit elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from allotment.autoscaler.cordon import LEAVING
from allotment.autoscaler.options import AutoscalerOptions
from allotment.cluster.resources import DISRUPTION_BUDGETS, NODES, PODS, REPLICA_SETS
from allotment.model.trees import Tree
from tests.unit.autoscaler.world import ClusterClient, World, options, world
from tests.unit.cluster import idle

_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": True}


def run_scenario(chosen: AutoscalerOptions, scenario: Callable[[World], Awaitable[None]], speed: float = 60.0) -> None:
    async def test() -> None:
        async with world(chosen, speed) as cluster:
            cluster.client.put(REPLICA_SETS, {"metadata": {"name": "web", "namespace": "ns", "uid": "set"}})
            await scenario(cluster)

    idle.run(test())


def scaled(mode: str = "empty", **more: Any) -> AutoscalerOptions:
    return options(consolidation=mode, consolidate_after=20, budget="100%", **more)


async def running(cluster: World, *names: str, **more: Any) -> dict[str, str]:
    """Pods of a set on machines of their own; node by pod."""
    for name in names:
        cluster.pod(name, ownerReferences=[_SET], labels={"app": "web"}, **more)
    await cluster.until(lambda: len(cluster.event_texts("MachineReady")) == len(names))
    placed = {name: cluster.nominated(name) for name in names}
    for name, node in placed.items():
        cluster.bind(name, node)
    return placed


def node(cluster: World, name: str) -> Tree:
    return cluster.client.objects[NODES, "", name]


def test_the_machine_of_a_deleted_pod_is_released() -> None:
    async def scenario(cluster: World) -> None:
        placed = await running(cluster, "a", "b")
        cluster.end("a")
        await cluster.until(lambda: placed["a"] not in cluster.machines())
        await cluster.until(lambda: cluster.orders() == cluster.provider_machines() == [placed["b"]])
        await cluster.after(60)
        assert list(cluster.machines()) == [placed["b"]]
        assert cluster.client.evicted == []
        assert any("it is idle" in text for text in cluster.event_texts("ScaleDown"))

    run_scenario(scaled(), scenario)


def test_a_machine_is_kept_until_consolidate_after() -> None:
    async def scenario(cluster: World) -> None:
        placed = await running(cluster, "a")
        cluster.end("a")
        await cluster.after(12)
        assert list(cluster.machines()) == [placed["a"]]
        assert not node(cluster, placed["a"])["spec"].get("unschedulable")

    run_scenario(scaled(), scenario)


def test_a_node_with_a_do_not_disrupt_annotation_is_kept() -> None:
    async def scenario(cluster: World) -> None:
        placed = await running(cluster, "a")
        known = node(cluster, placed["a"])
        message = {**known["metadata"]["annotations"], "karpenter.sh/do-not-disrupt": "true"}
        cluster.client.put(NODES, {**known, "metadata": {**known["metadata"], "annotations": message}})
        cluster.end("a")
        await cluster.after(90)
        assert list(cluster.machines()) == [placed["a"]]

    run_scenario(scaled(), scenario)


def test_a_node_cordoned_by_another_client_is_kept() -> None:
    async def scenario(cluster: World) -> None:
        placed = await running(cluster, "a")
        known = node(cluster, placed["a"])
        cluster.client.put(NODES, {**known, "spec": {**known["spec"], "unschedulable": True}})
        cluster.end("a")
        await cluster.after(90)
        assert list(cluster.machines()) == [placed["a"]]
        assert LEAVING not in node(cluster, placed["a"])["metadata"]["annotations"]

    run_scenario(scaled(), scenario)


def test_only_machines_of_the_autoscaler_are_removed() -> None:
    async def scenario(cluster: World) -> None:
        status = {"allocatable": {"cpu": "8", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.client.put(NODES, {"metadata": {"name": "theirs", "labels": {
            "node.kubernetes.io/instance-type": "m5.large"}}, "spec": {}, "status": status})  # fmt: skip
        await cluster.after(90)
        assert list(cluster.machines()) == ["theirs"]

    run_scenario(scaled(), scenario)


def test_the_budget_limits_concurrent_disruptions() -> None:
    most = 0

    async def scenario(cluster: World) -> None:
        nonlocal most
        placed = await running(cluster, "a", "b", "c", "d")
        for name in placed:
            cluster.end(name)

        def cordoned() -> int:
            return sum(LEAVING in node["metadata"].get("annotations", {}) for node in cluster.all(NODES))

        def gone() -> bool:
            nonlocal most
            most = max(most, cordoned())
            return not cluster.machines()

        await cluster.until(gone)
        assert most == 1

    run_scenario(options(consolidation="empty", consolidate_after=20, budget="1"), scenario)


def test_pods_are_consolidated_onto_one_machine() -> None:
    async def scenario(cluster: World) -> None:
        placed = await running(cluster, "a", "b")
        await cluster.until(lambda: len(cluster.machines()) == 1)
        (gone,) = set(placed.values()) - set(cluster.machines())
        assert [placed[name] for name in cluster.client.evicted] == [gone]

    run_scenario(scaled("cheaper"), scenario)


def test_pods_with_an_exhausted_disruption_budget_are_not_moved() -> None:
    async def scenario(cluster: World) -> None:
        spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 0}
        status = {"disruptionsAllowed": 0, "observedGeneration": 1}
        meta = {"name": "web", "namespace": "ns", "generation": 1}
        cluster.client.put(DISRUPTION_BUDGETS, {"metadata": meta, "spec": spec, "status": status})
        await running(cluster, "a", "b")
        await cluster.after(120)
        assert len(cluster.machines()) == 2
        assert cluster.client.evicted == []

    run_scenario(scaled("cheaper"), scenario)


def test_a_rejected_eviction_is_retried_while_the_machine_is_kept() -> None:
    async def scenario(cluster: World) -> None:
        cluster.client.refuse_eviction = {"a", "b"}
        await running(cluster, "a", "b")
        await cluster.until(lambda: any(LEAVING in n["metadata"]["annotations"] for n in cluster.all(NODES)))
        await cluster.after(30)
        assert len(cluster.machines()) == 2
        cluster.client.refuse_eviction.clear()
        await cluster.until(lambda: len(cluster.machines()) == 1)

    run_scenario(scaled("cheaper"), scenario)


def test_a_pod_without_a_controller_is_not_moved() -> None:
    async def scenario(cluster: World) -> None:
        for name in ("a", "b"):
            cluster.pod(name)
        await cluster.until(lambda: len(cluster.event_texts("MachineReady")) == 2)
        for name in ("a", "b"):
            cluster.bind(name, cluster.nominated(name))
        await cluster.after(90)
        assert len(cluster.machines()) == 2
        assert cluster.client.evicted == []

    run_scenario(scaled("cheaper"), scenario)


def test_a_new_pod_on_a_cordoned_node_aborts_the_disruption() -> None:
    async def scenario(cluster: World) -> None:
        placed = await running(cluster, "a")
        cluster.end("a")
        await cluster.until(lambda: LEAVING in node(cluster, placed["a"])["metadata"]["annotations"])
        cluster.pod("late", ownerReferences=[_SET])  # bound by a scheduler that had not seen the cordon
        cluster.bind("late", placed["a"])
        await cluster.until(lambda: cluster.event_texts("ScaleDownFailed"))
        await cluster.until(lambda: LEAVING not in node(cluster, placed["a"])["metadata"]["annotations"])
        assert not node(cluster, placed["a"])["spec"].get("unschedulable")
        assert list(cluster.machines()) == [placed["a"]]

    run_scenario(scaled(), scenario, speed=20)


def test_cordons_of_an_earlier_process_are_removed() -> None:
    async def test() -> None:
        client = ClusterClient()
        async with world(scaled(), 60, client) as cluster:
            placed = await running(cluster, "a")
            await cluster.after(2)
        name = placed["a"]
        known = client.objects[NODES, "", name]
        message = {**known["metadata"]["annotations"], LEAVING: "true"}
        client.put(
            NODES, {**known, "metadata": {**known["metadata"], "annotations": message}, "spec": {"unschedulable": True}}
        )
        async with world(scaled(), 60, client) as cluster:
            await cluster.until(lambda: LEAVING not in node(cluster, name)["metadata"]["annotations"])
            assert not node(cluster, name)["spec"].get("unschedulable")

    idle.run(test())


def test_a_dry_run_reports_removable_nodes() -> None:
    async def test() -> None:
        client = ClusterClient()
        async with world(scaled(), 60, client) as cluster:
            placed = await running(cluster, "a")
            await cluster.after(2)
            cluster.end("a")
        async with world(scaled(dry_run=True), 60, client) as cluster:
            await cluster.until(lambda: cluster.event_texts("ProposedScaleDown"))
            await cluster.after(30)
            assert list(cluster.machines()) == [placed["a"]]
            assert not node(cluster, placed["a"])["spec"].get("unschedulable")
            assert cluster.all(PODS) == []

    idle.run(test())
