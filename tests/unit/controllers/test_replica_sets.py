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


def ready(here: World, name: str) -> None:
    here.change(PODS, name, status=pod(name, ready=True)["status"])


def status(here: World) -> Tree:
    found: Tree = here.get(REPLICA_SETS, "web").get("status") or {}
    return found


def test_pods_are_made_from_the_template_and_counted() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            owner = here.put(REPLICA_SETS, replica_set(3))
            await here.until(lambda: status(here).get("replicas") == 3)
            for tree in here.all(PODS):
                assert tree["metadata"]["name"].startswith("web-")
                assert tree["metadata"]["labels"] == {"app": "web"}
                [reference] = tree["metadata"]["ownerReferences"]
                assert reference == {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["metadata"]["uid"],
                    "controller": True, "blockOwnerDeletion": True,
                }  # fmt: skip
                ready(here, tree["metadata"]["name"])
            await here.until(lambda: status(here).get("availableReplicas") == 3)
            assert status(here) == {
                "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
                "terminatingReplicas": 0, "observedGeneration": 1,
            }  # fmt: skip
            await here.until(lambda: len(here.events("SuccessfulCreate")) == 3)

    idle.run(story())


def test_failed_and_deleted_pods_are_replaced() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            here.put(REPLICA_SETS, replica_set(2))
            await here.until(lambda: len(here.all(PODS)) == 2)
            first, second = here.names(PODS)
            here.remove(PODS, first)
            here.change(PODS, second, status={"phase": "Failed"})
            await here.until(lambda: len(here.all(PODS)) == 3)
            await here.settled()
            assert status(here)["replicas"] == 2

    idle.run(story())


def test_pods_are_deleted_in_deletion_order() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            here.put(REPLICA_SETS, replica_set(3))
            await here.until(lambda: len(here.all(PODS)) == 3)
            keep = here.names(PODS)[1]
            here.change(PODS, keep, **{key: pod(keep, node="n", ready=True)[key] for key in ("spec", "status")})
            here.change(REPLICA_SETS, "web", spec=replica_set(1)["spec"])
            await here.until(lambda: here.names(PODS) == [keep])
            await here.until(lambda: status(here)["replicas"] == 1)
            assert status(here)["observedGeneration"] == 2

    idle.run(story())


def test_many_pods_are_created_and_deleted_quickly() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            here.put(REPLICA_SETS, replica_set(1200))
            await here.until(lambda: status(here).get("replicas") == 1200)
            here.change(REPLICA_SETS, "web", spec=replica_set(0)["spec"])
            await here.until(lambda: not here.all(PODS))

    idle.run(story())


def test_matching_orphans_are_adopted_and_others_released() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            here.put(PODS, pod("orphan", labels={"app": "web"}))
            here.put(REPLICA_SETS, replica_set(1))
            await here.until(lambda: here.get(PODS, "orphan")["metadata"].get("ownerReferences"))
            await here.settled()
            assert here.names(PODS) == ["orphan"]
            here.change(PODS, "orphan", metadata={"labels": {"app": "debug"}})
            await here.until(lambda: len(here.all(PODS)) == 2)
            assert here.get(PODS, "orphan")["metadata"]["ownerReferences"] == []

    idle.run(story())


def test_a_rejected_pod_is_reported_and_retried() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            await here.settled()
            here.client.refuse = [refusal(403, "Forbidden", "exceeded quota: q")]
            here.put(REPLICA_SETS, replica_set(5))
            await here.until(lambda: here.events("FailedCreate") == ["Error creating: exceeded quota: q"])
            await here.until(lambda: len(here.all(PODS)) == 5 and "conditions" not in status(here))

    idle.run(story())


def test_a_permanent_rejection_is_retried_with_back_off() -> None:
    async def story() -> None:
        async with world(replica_sets) as here:
            here.client.forbidden.add(PODS)
            here.put(REPLICA_SETS, replica_set(5))
            await here.until(lambda: status(here).get("conditions"))
            await asyncio.sleep(0.3)
            assert 1 < len(here.client.forbade) < 12

    idle.run(story())


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    async def story() -> None:
        async with world(replica_sets, speed=10) as here:
            here.put(REPLICA_SETS, replica_set(1, minReadySeconds=1))
            await here.until(lambda: here.names(PODS))
            ready(here, here.names(PODS)[0])
            await here.until(lambda: status(here).get("availableReplicas") == 1)

    idle.run(story())


def test_a_replication_controller_selects_by_a_plain_map() -> None:
    async def story() -> None:
        async with world(replication_controllers) as here:
            spec = {**replica_set(2)["spec"], "selector": {"app": "web"}}
            here.put(REPLICATION_CONTROLLERS, {"metadata": {"name": "web"}, "spec": spec})
            await here.until(
                lambda: (here.get(REPLICATION_CONTROLLERS, "web").get("status") or {}).get("replicas") == 2
            )
            await here.settled()
            assert len(here.all(PODS)) == 2

    idle.run(story())
