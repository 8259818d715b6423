"""ReplicaSets keep the desired number of pods and report how many are ready."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from allotment.controllers.replica_sets import replica_sets, replication_controllers
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.controllers.world import World, pod, world


def replica_set(replicas: int, **spec: Any) -> Tree:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


def ready(cluster: World, name: str) -> None:
    cluster.change(PODS, name, status=pod(name, ready=True)["status"])


def status(cluster: World) -> Tree:
    found: Tree = cluster.get(REPLICA_SETS, "web").get("status") or {}
    return found


def test_pods_are_made_from_the_template_and_counted() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            owner = cluster.put(REPLICA_SETS, replica_set(3))
            await cluster.until(lambda: status(cluster).get("replicas") == 3)
            for tree in cluster.all(PODS):
                assert tree["metadata"]["name"].startswith("web-")
                assert tree["metadata"]["labels"] == {"app": "web"}
                [reference] = tree["metadata"]["ownerReferences"]
                assert reference == {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"],
                    "controller": True, "blockOwnerDeletion": True,
                }  # fmt: skip
                ready(cluster, tree["metadata"]["name"])
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 3)
            assert status(cluster) == {
                "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
                "terminatingReplicas": 0, "observedGeneration": 1,
            }  # fmt: skip
            await cluster.until(lambda: len(cluster.events("SuccessfulCreate")) == 3)

    idle.run(scenario())


def test_failed_and_deleted_pods_are_replaced() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            cluster.put(REPLICA_SETS, replica_set(2))
            await cluster.until(lambda: len(cluster.all(PODS)) == 2)
            first, second = cluster.names(PODS)
            cluster.remove(PODS, first)
            cluster.change(PODS, second, status={"phase": "Failed"})
            await cluster.until(lambda: len(cluster.all(PODS)) == 3)
            await cluster.settled()
            assert status(cluster)["replicas"] == 2

    idle.run(scenario())


def test_pods_are_deleted_in_deletion_order() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            cluster.put(REPLICA_SETS, replica_set(3))
            await cluster.until(lambda: len(cluster.all(PODS)) == 3)
            keep = cluster.names(PODS)[1]
            cluster.change(PODS, keep, **{key: pod(keep, node="n", ready=True)[key] for key in ("spec", "status")})
            cluster.change(REPLICA_SETS, "web", spec=replica_set(1)["spec"])
            await cluster.until(lambda: cluster.names(PODS) == [keep])
            await cluster.until(lambda: status(cluster)["replicas"] == 1)
            assert status(cluster)["observedGeneration"] == 2

    idle.run(scenario())


def test_many_pods_are_created_and_deleted_quickly() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            cluster.put(REPLICA_SETS, replica_set(1200))
            await cluster.until(lambda: status(cluster).get("replicas") == 1200)
            cluster.change(REPLICA_SETS, "web", spec=replica_set(0)["spec"])
            await cluster.until(lambda: not cluster.all(PODS))

    idle.run(scenario())


def test_matching_orphans_are_adopted_and_others_released() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            cluster.put(PODS, pod("orphan", labels={"app": "web"}))
            cluster.put(REPLICA_SETS, replica_set(1))
            await cluster.until(lambda: cluster.get(PODS, "orphan")["metadata"].get("ownerReferences"))
            await cluster.settled()
            assert cluster.names(PODS) == ["orphan"]
            cluster.change(PODS, "orphan", metadata={"labels": {"app": "debug"}})
            await cluster.until(lambda: len(cluster.all(PODS)) == 2)
            assert cluster.get(PODS, "orphan")["metadata"]["ownerReferences"] == []

    idle.run(scenario())


def test_a_rejected_pod_is_reported_and_retried() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            await cluster.settled()
            cluster.client.refuse = [refusal(403, "Forbidden", "exceeded quota: q")]
            cluster.put(REPLICA_SETS, replica_set(5))
            await cluster.until(lambda: cluster.events("FailedCreate") == ["Error creating: exceeded quota: q"])
            await cluster.until(lambda: len(cluster.all(PODS)) == 5 and "conditions" not in status(cluster))

    idle.run(scenario())


def test_a_permanent_rejection_is_retried_with_back_off() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            cluster.client.forbidden.add(PODS)
            cluster.put(REPLICA_SETS, replica_set(5))
            await cluster.until(lambda: status(cluster).get("conditions"))
            await asyncio.sleep(0.3)
            assert 1 < len(cluster.client.forbade) < 12

    idle.run(scenario())


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    async def scenario() -> None:
        async with world(replica_sets, speed=10) as cluster:
            cluster.put(REPLICA_SETS, replica_set(1, minReadySeconds=1))
            await cluster.until(lambda: cluster.names(PODS))
            ready(cluster, cluster.names(PODS)[0])
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 1)

    idle.run(scenario())


def test_a_replication_controller_selects_by_a_plain_map() -> None:
    async def scenario() -> None:
        async with world(replication_controllers) as cluster:
            spec = {**replica_set(2)["spec"], "selector": {"app": "web"}}
            cluster.put(REPLICATION_CONTROLLERS, {"metadata": {"name": "web"}, "spec": spec})
            await cluster.until(
                lambda: (cluster.get(REPLICATION_CONTROLLERS, "web").get("status") or {}).get("replicas") == 2
            )
            await cluster.settled()
            assert len(cluster.all(PODS)) == 2

    idle.run(scenario())


def test_a_status_that_another_client_wrote_is_replaced() -> None:
    async def scenario() -> None:
        async with world(replica_sets) as cluster:
            cluster.put(REPLICA_SETS, replica_set(1))
            await cluster.until(lambda: status(cluster).get("replicas") == 1)
            await cluster.settled()
            cluster.change(REPLICA_SETS, "web", status={"replicas": 7, "readyReplicas": 5})
            await cluster.until(lambda: status(cluster).get("replicas") == 1)

    idle.run(scenario())
