"""StatefulSets create, update and delete their pods in the order of ordinals."""

from __future__ import annotations

from functools import partial
from typing import Any

from allotment.cluster.resources import CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS
from allotment.controllers.stateful_sets import stateful_sets
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import World, kubelet, pod, world


def spec(image: str = "one", replicas: int = 3, **more: Any) -> Tree:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    selector = {"matchLabels": {"app": "db"}}
    return {"replicas": replicas, "selector": selector, "template": template, "serviceName": "db", **more}


def stateful_set(**fields: Any) -> Tree:
    return {"metadata": {"name": "db", "generation": 1}, "spec": spec(**fields)}


def status(here: World) -> Tree:
    found: Tree = here.get(STATEFUL_SETS, "db").get("status") or {}
    return found


def images(here: World) -> list[str]:
    return [tree["spec"]["containers"][0]["image"] for tree in here.all(PODS)]


def shows(here: World, image: str) -> bool:
    return images(here) == [image]


def pod_events(here: World, type: str) -> list[str]:
    """Names of pods in the order of their watch events."""
    return [
        event.object["metadata"]["name"]
        for _, resource, event in here.client.history
        if resource == PODS and event.type == type
    ]


def test_pods_are_created_in_order_with_stable_names_and_volumes() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            here.put(STATEFUL_SETS, stateful_set(volumeClaimTemplates=volumes))
            await here.until(lambda: status(here).get("availableReplicas") == 3)
            assert pod_events(here, "ADDED") == ["db-0", "db-1", "db-2"]
            assert here.names(VOLUME_CLAIMS) == ["data-db-0", "data-db-1", "data-db-2"]
            first = here.get(PODS, "db-0")
            assert first["metadata"]["generateName"] == "db-"
            assert first["spec"]["hostname"] == "db-0"
            assert first["spec"]["subdomain"] == "db"
            assert first["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
            assert first["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
            assert status(here)["currentRevision"] == status(here)["updateRevision"]
            [revision] = here.names(CONTROLLER_REVISIONS)
            assert first["metadata"]["labels"]["controller-revision-hash"] == revision
            await here.until(lambda: len(here.events("SuccessfulCreate")) == 6)
            assert "Create Pod db-0 in StatefulSet db successful" in here.events("SuccessfulCreate")
            assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in here.events("SuccessfulCreate")

    idle.run(story())


def test_an_unready_pod_blocks_later_ordinals() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            tree = stateful_set()
            tree["spec"]["template"]["metadata"]["labels"]["stuck"] = "yes"
            here.put(STATEFUL_SETS, tree)
            await here.settled()
            assert here.names(PODS) == ["db-0"]

    idle.run(story())


def test_parallel_management_creates_all_pods() -> None:
    async def story() -> None:
        async with world(stateful_sets) as here:
            here.put(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel"))
            await here.until(lambda: here.names(PODS) == ["db-0", "db-1", "db-2"])
            here.change(STATEFUL_SETS, "db", spec=spec(replicas=0, podManagementPolicy="Parallel"))
            await here.until(lambda: not here.all(PODS))

    idle.run(story())


def test_the_highest_ordinals_are_deleted_first() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            here.put(STATEFUL_SETS, stateful_set())
            await here.until(lambda: status(here).get("readyReplicas") == 3)
            here.change(STATEFUL_SETS, "db", spec=spec(replicas=1))
            await here.until(lambda: here.names(PODS) == ["db-0"])
            assert pod_events(here, "DELETED") == ["db-2", "db-1"]

    idle.run(story())


def test_an_update_runs_from_the_highest_ordinal_to_the_partition() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            here.put(STATEFUL_SETS, stateful_set())
            await here.until(lambda: status(here).get("readyReplicas") == 3)
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            here.change(STATEFUL_SETS, "db", spec=spec(image="two", updateStrategy=strategy))
            await here.until(lambda: images(here) == ["one", "two", "two"])
            assert pod_events(here, "DELETED") == ["db-2", "db-1"]
            here.remove(PODS, "db-0")
            await here.until(lambda: images(here) == ["one", "two", "two"])
            here.change(STATEFUL_SETS, "db", spec=spec(image="two"))
            await here.until(lambda: images(here) == ["two"] * 3)
            await here.until(lambda: status(here)["currentRevision"] == status(here)["updateRevision"])
            assert status(here)["updatedReplicas"] == 3

    idle.run(story())


def test_a_recreated_set_adopts_pods_and_revisions() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            here.put(STATEFUL_SETS, stateful_set(replicas=2))
            await here.until(lambda: status(here).get("readyReplicas") == 2)
            first = status(here)["currentRevision"]
            here.remove(STATEFUL_SETS, "db")
            for resource in (PODS, CONTROLLER_REVISIONS):
                for name in here.names(resource):
                    tree = here.get(resource, name)
                    here.put(resource, {**tree, "metadata": {**tree["metadata"], "ownerReferences": []}})
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            here.put(STATEFUL_SETS, stateful_set(replicas=2, updateStrategy=strategy))
            await here.until(lambda: status(here).get("readyReplicas") == 2)
            here.change(STATEFUL_SETS, "db", spec=spec(image="two", replicas=2, updateStrategy=strategy))
            await here.until(lambda: images(here) == ["one", "two"])
            await here.until(lambda: status(here).get("currentReplicas") == 1)
            assert status(here)["currentRevision"] == first
            here.remove(PODS, "db-0")
            await here.until(lambda: images(here) == ["one", "two"])

    idle.run(story())


def test_a_rollback_reuses_the_old_revision() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            here.put(STATEFUL_SETS, stateful_set(replicas=1))
            await here.until(lambda: status(here).get("readyReplicas") == 1)
            first = status(here)["currentRevision"]
            for image in ("two", "one"):
                here.change(STATEFUL_SETS, "db", spec=spec(image=image, replicas=1))
                await here.until(partial(shows, here, image))
            await here.until(lambda: status(here)["currentRevision"] == first)
            assert len(here.all(CONTROLLER_REVISIONS)) == 2
            revisions = {tree["metadata"]["name"]: tree["revision"] for tree in here.all(CONTROLLER_REVISIONS)}
            assert revisions[first] == 3

    idle.run(story())


def test_a_failed_pod_is_recreated_under_its_name() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            here.put(STATEFUL_SETS, stateful_set(replicas=2))
            await here.until(lambda: status(here).get("readyReplicas") == 2)
            before = here.get(PODS, "db-0")["metadata"]["uid"]
            here.change(PODS, "db-0", status={"phase": "Failed"})
            await here.until(lambda: here.get(PODS, "db-0")["metadata"]["uid"] != before)

    idle.run(story())


def owners(here: World, claim: str) -> list[str]:
    return [one["name"] for one in here.get(VOLUME_CLAIMS, claim)["metadata"].get("ownerReferences") or ()]


def test_claims_are_deleted_according_to_the_retention_policy() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet, speed=20) as here:
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
            fields: Tree = {"volumeClaimTemplates": volumes, "persistentVolumeClaimRetentionPolicy": policy}
            here.put(STATEFUL_SETS, stateful_set(replicas=2, **fields))
            await here.until(lambda: status(here).get("availableReplicas") == 2)
            await here.until(lambda: owners(here, "data-db-1") == ["db"])
            here.change(STATEFUL_SETS, "db", spec=spec(replicas=1, **fields))
            await here.until(lambda: here.names(PODS) == ["db-0"])
            assert (owners(here, "data-db-0"), owners(here, "data-db-1")) == (["db"], ["db-1"])
            # A pod of that number waits until the claim of the old one is gone.
            here.change(STATEFUL_SETS, "db", spec=spec(replicas=2, **fields))
            await here.settled()
            assert here.names(PODS) == ["db-0"]
            here.remove(VOLUME_CLAIMS, "data-db-1")
            await here.until(lambda: here.names(PODS) == ["db-0", "db-1"])
            fields["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": "Retain", "whenDeleted": "Retain"}
            here.change(STATEFUL_SETS, "db", spec=spec(replicas=2, **fields))
            await here.until(lambda: not owners(here, "data-db-0") and not owners(here, "data-db-1"))

    idle.run(story())


def test_the_retention_policy_ignores_claims_of_other_controllers() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": True}
            here.put(VOLUME_CLAIMS, {"metadata": {"name": "data-db-0", "ownerReferences": [other]}, "spec": {}})
            here.put(VOLUME_CLAIMS, {"metadata": {"name": "data-db-1"}, "spec": {}})
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            policy = {"whenDeleted": "Delete"}
            tree = stateful_set(volumeClaimTemplates=volumes, persistentVolumeClaimRetentionPolicy=policy)
            here.put(STATEFUL_SETS, tree)
            await here.until(lambda: status(here).get("availableReplicas") == 3)
            assert (owners(here, "data-db-0"), owners(here, "data-db-1")) == (["x"], ["db"])
            await here.until(lambda: here.events("ConflictingController"))

    idle.run(story())


def test_a_partition_counts_from_the_first_ordinal() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            fields: Tree = {"replicas": 2, "ordinals": {"start": 5}, "updateStrategy": strategy}
            here.put(STATEFUL_SETS, stateful_set(**fields))
            await here.until(lambda: status(here).get("availableReplicas") == 2)
            here.change(STATEFUL_SETS, "db", spec=spec(image="two", **fields))
            await here.until(lambda: images(here) == ["one", "two"])
            here.remove(PODS, "db-5")
            await here.until(lambda: images(here) == ["one", "two"])

    idle.run(story())


def test_the_lowest_unhealthy_surplus_pod_is_deleted_first() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            here.put(STATEFUL_SETS, stateful_set(replicas=3))
            await here.until(lambda: status(here).get("availableReplicas") == 3)
            for name in ("db-1", "db-2"):
                here.change(PODS, name, status={"phase": "Running", "conditions": []})
            here.change(STATEFUL_SETS, "db", spec=spec(replicas=1))
            await here.settled()
            assert here.names(PODS) == ["db-0", "db-1", "db-2"]
            ready = here.get(PODS, "db-0")["status"]
            here.change(PODS, "db-2", status=ready)
            await here.until(lambda: here.names(PODS) == ["db-0"])

    idle.run(story())


def test_only_pods_with_the_names_of_a_set_are_adopted() -> None:
    async def story() -> None:
        async with world(stateful_sets, kubelet) as here:
            for name in ("db-0", "stranger"):
                here.put(PODS, pod(name, ready=True, labels={"app": "db"}))
            here.put(STATEFUL_SETS, stateful_set(replicas=1))
            await here.until(lambda: here.events("SuccessfulUpdate"))
            assert here.get(PODS, "db-0")["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
            assert "ownerReferences" not in here.get(PODS, "stranger")["metadata"]

    idle.run(story())
