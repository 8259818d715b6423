"""The status of a PodDisruptionBudget counts the allowed disruptions."""

from __future__ import annotations

from typing import Any

from allotment.cluster.resources import DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, REPLICA_SETS
from allotment.controllers.disruption import disruption
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, pod, world


def budget(**spec: Any) -> Tree:
    return {"metadata": {"name": "b", "generation": 1}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


def budget_status(cluster: World) -> tuple[int, int, int, int]:
    status = cluster.get(DISRUPTION_BUDGETS, "b").get("status") or {}
    fields = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
    found = [status.get(field, -1) for field in fields]
    return found[0], found[1], found[2], found[3]


def pods(cluster: World, count: int, owner: Tree | None = None, ready: int | None = None) -> None:
    references = []
    if owner is not None:
        metadata = owner["metadata"]
        references = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"],
             "controller": True}
        ]  # fmt: skip
    for number in range(count):
        is_ready = ready is None or number < ready
        cluster.put(
            PODS, pod(f"p{number}", node="n", ready=is_ready, labels={"app": "web"}, ownerReferences=references)
        )  # fmt: skip


def test_min_available_counts_pods() -> None:
    async def scenario() -> None:
        async with world(disruption) as cluster:
            pods(cluster, 3)
            cluster.put(DISRUPTION_BUDGETS, budget(minAvailable=2))
            await cluster.until(lambda: budget_status(cluster) == (3, 2, 3, 1))
            cluster.change(PODS, "p0", status={"phase": "Running"})
            await cluster.until(lambda: budget_status(cluster) == (3, 2, 2, 0))
            [condition] = cluster.get(DISRUPTION_BUDGETS, "b")["status"]["conditions"]
            assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")

    idle.run(scenario())


def test_max_unavailable_counts_desired_replicas() -> None:
    async def scenario() -> None:
        async with world(disruption) as cluster:
            owner = cluster.put(REPLICA_SETS, {"metadata": {"name": "web"}, "spec": {"replicas": 10}})
            pods(cluster, 8, owner)
            cluster.put(DISRUPTION_BUDGETS, budget(maxUnavailable="30%"))
            await cluster.until(lambda: budget_status(cluster) == (10, 7, 8, 1))

    idle.run(scenario())


def test_a_pod_whose_eviction_was_granted_is_no_longer_counted() -> None:
    async def scenario() -> None:
        async with world(disruption) as cluster:
            pods(cluster, 3)
            cluster.put(DISRUPTION_BUDGETS, budget(minAvailable=1))
            await cluster.until(lambda: budget_status(cluster) == (3, 1, 3, 2))
            status = cluster.get(DISRUPTION_BUDGETS, "b")["status"]
            since = status["conditions"][0]["lastTransitionTime"]
            cluster.change(DISRUPTION_BUDGETS, "b", status={**status, "disruptedPods": {"p0": since, "gone": since}})
            await cluster.until(lambda: budget_status(cluster) == (3, 1, 2, 1))
            assert list(cluster.get(DISRUPTION_BUDGETS, "b")["status"]["disruptedPods"]) == ["p0"]

    idle.run(scenario())


def test_controllers_that_control_each_other_are_counted_once() -> None:
    async def scenario() -> None:
        async with world(disruption) as cluster:
            first, second = (
                cluster.put(REPLICA_SETS, {"metadata": {"name": name}, "spec": {"replicas": 4}}) for name in ("a", "b")
            )
            for owned, above in ((first, second), (second, first)):
                reference = {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": above["metadata"]["name"],
                    "uid": above["metadata"]["uid"], "controller": True,
                }  # fmt: skip
                cluster.put(REPLICA_SETS, {**owned, "metadata": {**owned["metadata"], "ownerReferences": [reference]}})
            pods(cluster, 4, first)
            cluster.put(DISRUPTION_BUDGETS, budget(maxUnavailable=1))
            await cluster.until(lambda: budget_status(cluster) == (4, 3, 4, 1))

    idle.run(scenario())


def test_a_replica_set_of_a_deployment_counts_as_the_deployment() -> None:
    async def scenario() -> None:
        async with world(disruption) as cluster:
            deployment = cluster.put(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": {"replicas": 6}})
            reference = {
                "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": deployment["metadata"]["uid"],
                "controller": True,
            }  # fmt: skip
            owner = cluster.put(
                REPLICA_SETS, {"metadata": {"name": "web-1", "ownerReferences": [reference]}, "spec": {"replicas": 2}}
            )
            pods(cluster, 2, owner)
            cluster.put(DISRUPTION_BUDGETS, budget(maxUnavailable=5))
            await cluster.until(lambda: budget_status(cluster) == (6, 1, 2, 1))

    idle.run(scenario())
