"""StatefulSets create, update and delete their pods in the order of ordinals."""

from __future__ import annotations

from functools import partial
from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS
from allotment.controllers.stateful_sets import stateful_sets
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient, refusal
from tests.unit.controllers.world import World, kubelet, pod, world


def spec(image: str = "one", replicas: int = 3, **more: Any) -> Tree:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    selector = {"matchLabels": {"app": "db"}}
    return {"replicas": replicas, "selector": selector, "template": template, "serviceName": "db", **more}


def stateful_set(**fields: Any) -> Tree:
    return {"metadata": {"name": "db", "generation": 1}, "spec": spec(**fields)}


def status(cluster: World) -> Tree:
    found: Tree = cluster.get(STATEFUL_SETS, "db").get("status") or {}
    return found


def images(cluster: World) -> list[str]:
    return [tree["spec"]["containers"][0]["image"] for tree in cluster.all(PODS)]


def shows(cluster: World, image: str) -> bool:
    return images(cluster) == [image]


def pod_events(cluster: World, type: str) -> list[str]:
    """Names of pods in the order of their watch events."""
    return [
        event.object["metadata"]["name"]
        for _, resource, event in cluster.client.history
        if resource == PODS and event.type == type
    ]


def test_pods_are_created_in_order_with_stable_names_and_volumes() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            cluster.put(STATEFUL_SETS, stateful_set(volumeClaimTemplates=volumes))
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 3)
            assert pod_events(cluster, "ADDED") == ["db-0", "db-1", "db-2"]
            assert cluster.names(VOLUME_CLAIMS) == ["data-db-0", "data-db-1", "data-db-2"]
            first = cluster.get(PODS, "db-0")
            assert first["metadata"]["generateName"] == "db-"
            assert first["spec"]["hostname"] == "db-0"
            assert first["spec"]["subdomain"] == "db"
            assert first["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}]
            assert first["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"
            assert status(cluster)["currentRevision"] == status(cluster)["updateRevision"]
            [revision] = cluster.names(CONTROLLER_REVISIONS)
            assert first["metadata"]["labels"]["controller-revision-hash"] == revision
            await cluster.until(lambda: len(cluster.events("SuccessfulCreate")) == 6)
            assert "Create Pod db-0 in StatefulSet db successful" in cluster.events("SuccessfulCreate")
            assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in cluster.events("SuccessfulCreate")

    idle.run(scenario())


def test_an_unready_pod_blocks_later_ordinals() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            tree = stateful_set()
            tree["spec"]["template"]["metadata"]["labels"]["stuck"] = "yes"
            cluster.put(STATEFUL_SETS, tree)
            await cluster.settled()
            assert cluster.names(PODS) == ["db-0"]

    idle.run(scenario())


def test_parallel_management_creates_all_pods() -> None:
    async def scenario() -> None:
        async with world(stateful_sets) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set(podManagementPolicy="Parallel"))
            await cluster.until(lambda: cluster.names(PODS) == ["db-0", "db-1", "db-2"])
            cluster.change(STATEFUL_SETS, "db", spec=spec(replicas=0, podManagementPolicy="Parallel"))
            await cluster.until(lambda: not cluster.all(PODS))

    idle.run(scenario())


def test_the_highest_ordinals_are_deleted_first() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set())
            await cluster.until(lambda: status(cluster).get("readyReplicas") == 3)
            cluster.change(STATEFUL_SETS, "db", spec=spec(replicas=1))
            await cluster.until(lambda: cluster.names(PODS) == ["db-0"])
            assert pod_events(cluster, "DELETED") == ["db-2", "db-1"]

    idle.run(scenario())


def test_an_update_runs_from_the_highest_ordinal_to_the_partition() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set())
            await cluster.until(lambda: status(cluster).get("readyReplicas") == 3)
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            cluster.change(STATEFUL_SETS, "db", spec=spec(image="two", updateStrategy=strategy))
            await cluster.until(lambda: images(cluster) == ["one", "two", "two"])
            assert pod_events(cluster, "DELETED") == ["db-2", "db-1"]
            cluster.remove(PODS, "db-0")
            await cluster.until(lambda: images(cluster) == ["one", "two", "two"])
            cluster.change(STATEFUL_SETS, "db", spec=spec(image="two"))
            await cluster.until(lambda: images(cluster) == ["two"] * 3)
            await cluster.until(lambda: status(cluster)["currentRevision"] == status(cluster)["updateRevision"])
            assert status(cluster)["updatedReplicas"] == 3

    idle.run(scenario())


def test_a_recreated_set_adopts_pods_and_revisions() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set(replicas=2))
            await cluster.until(lambda: status(cluster).get("readyReplicas") == 2)
            first = status(cluster)["currentRevision"]
            cluster.remove(STATEFUL_SETS, "db")
            for resource in (PODS, CONTROLLER_REVISIONS):
                for name in cluster.names(resource):
                    tree = cluster.get(resource, name)
                    cluster.put(resource, {**tree, "metadata": {**tree["metadata"], "ownerReferences": []}})
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            cluster.put(STATEFUL_SETS, stateful_set(replicas=2, updateStrategy=strategy))
            await cluster.until(lambda: status(cluster).get("readyReplicas") == 2)
            cluster.change(STATEFUL_SETS, "db", spec=spec(image="two", replicas=2, updateStrategy=strategy))
            await cluster.until(lambda: images(cluster) == ["one", "two"])
            await cluster.until(lambda: status(cluster).get("currentReplicas") == 1)
            assert status(cluster)["currentRevision"] == first
            cluster.remove(PODS, "db-0")
            await cluster.until(lambda: images(cluster) == ["one", "two"])

    idle.run(scenario())


def test_a_rollback_reuses_the_old_revision() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set(replicas=1))
            await cluster.until(lambda: status(cluster).get("readyReplicas") == 1)
            first = status(cluster)["currentRevision"]
            for image in ("two", "one"):
                cluster.change(STATEFUL_SETS, "db", spec=spec(image=image, replicas=1))
                await cluster.until(partial(shows, cluster, image))
            await cluster.until(lambda: status(cluster)["currentRevision"] == first)
            assert len(cluster.all(CONTROLLER_REVISIONS)) == 2
            revisions = {tree["metadata"]["name"]: tree["revision"] for tree in cluster.all(CONTROLLER_REVISIONS)}
            assert revisions[first] == 3

    idle.run(scenario())


def test_a_failed_pod_is_recreated_under_its_name() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set(replicas=2))
            await cluster.until(lambda: status(cluster).get("readyReplicas") == 2)
            before = cluster.get(PODS, "db-0")["metadata"]["uid"]
            cluster.change(PODS, "db-0", status={"phase": "Failed"})
            await cluster.until(lambda: cluster.get(PODS, "db-0")["metadata"]["uid"] != before)

    idle.run(scenario())


def owners(cluster: World, claim: str) -> list[str]:
    return [
        reference["name"] for reference in cluster.get(VOLUME_CLAIMS, claim)["metadata"].get("ownerReferences") or ()
    ]


class ContestedClaims(MemoryClient):
    """A cluster in which another client has always written a claim since it was read."""

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        if resource == VOLUME_CLAIMS:
            raise refusal(409, "Conflict")
        return await super().update(resource, tree, subresource=subresource)


def test_owners_of_claims_are_set_while_other_clients_write_them() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet, client=ContestedClaims()) as cluster:
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            policy = {"whenScaled": "Retain", "whenDeleted": "Delete"}
            fields: Tree = {"volumeClaimTemplates": volumes, "persistentVolumeClaimRetentionPolicy": policy}
            cluster.put(STATEFUL_SETS, stateful_set(replicas=2, **fields))
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 2)
            await cluster.until(lambda: owners(cluster, "data-db-0") == owners(cluster, "data-db-1") == ["db"])

    idle.run(scenario())


def test_claims_are_deleted_according_to_the_retention_policy() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet, speed=20) as cluster:
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
            fields: Tree = {"volumeClaimTemplates": volumes, "persistentVolumeClaimRetentionPolicy": policy}
            cluster.put(STATEFUL_SETS, stateful_set(replicas=2, **fields))
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 2)
            await cluster.until(lambda: owners(cluster, "data-db-1") == ["db"])
            cluster.change(STATEFUL_SETS, "db", spec=spec(replicas=1, **fields))
            await cluster.until(lambda: cluster.names(PODS) == ["db-0"])
            assert (owners(cluster, "data-db-0"), owners(cluster, "data-db-1")) == (["db"], ["db-1"])
            # A pod of that number waits until the claim of the old one is gone.
            cluster.change(STATEFUL_SETS, "db", spec=spec(replicas=2, **fields))
            await cluster.settled()
            assert cluster.names(PODS) == ["db-0"]
            cluster.remove(VOLUME_CLAIMS, "data-db-1")
            await cluster.until(lambda: cluster.names(PODS) == ["db-0", "db-1"])
            fields["persistentVolumeClaimRetentionPolicy"] = {"whenScaled": "Retain", "whenDeleted": "Retain"}
            cluster.change(STATEFUL_SETS, "db", spec=spec(replicas=2, **fields))
            await cluster.until(lambda: not owners(cluster, "data-db-0") and not owners(cluster, "data-db-1"))

    idle.run(scenario())


def test_the_retention_policy_ignores_claims_of_other_controllers() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u", "controller": True}
            cluster.put(VOLUME_CLAIMS, {"metadata": {"name": "data-db-0", "ownerReferences": [other]}, "spec": {}})
            cluster.put(VOLUME_CLAIMS, {"metadata": {"name": "data-db-1"}, "spec": {}})
            volumes = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
            policy = {"whenDeleted": "Delete"}
            tree = stateful_set(volumeClaimTemplates=volumes, persistentVolumeClaimRetentionPolicy=policy)
            cluster.put(STATEFUL_SETS, tree)
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 3)
            assert (owners(cluster, "data-db-0"), owners(cluster, "data-db-1")) == (["x"], ["db"])
            await cluster.until(lambda: cluster.events("ConflictingController"))

    idle.run(scenario())


def test_a_partition_counts_from_the_first_ordinal() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            fields: Tree = {"replicas": 2, "ordinals": {"start": 5}, "updateStrategy": strategy}
            cluster.put(STATEFUL_SETS, stateful_set(**fields))
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 2)
            cluster.change(STATEFUL_SETS, "db", spec=spec(image="two", **fields))
            await cluster.until(lambda: images(cluster) == ["one", "two"])
            cluster.remove(PODS, "db-5")
            await cluster.until(lambda: images(cluster) == ["one", "two"])

    idle.run(scenario())


def test_the_lowest_unhealthy_surplus_pod_is_deleted_first() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            cluster.put(STATEFUL_SETS, stateful_set(replicas=3))
            await cluster.until(lambda: status(cluster).get("availableReplicas") == 3)
            for name in ("db-1", "db-2"):
                cluster.change(PODS, name, status={"phase": "Running", "conditions": []})
            cluster.change(STATEFUL_SETS, "db", spec=spec(replicas=1))
            await cluster.settled()
            assert cluster.names(PODS) == ["db-0", "db-1", "db-2"]
            ready = cluster.get(PODS, "db-0")["status"]
            cluster.change(PODS, "db-2", status=ready)
            await cluster.until(lambda: cluster.names(PODS) == ["db-0"])

    idle.run(scenario())


def test_only_pods_with_the_names_of_a_set_are_adopted() -> None:
    async def scenario() -> None:
        async with world(stateful_sets, kubelet) as cluster:
            for name in ("db-0", "stranger"):
                cluster.put(PODS, pod(name, ready=True, labels={"app": "db"}))
            cluster.put(STATEFUL_SETS, stateful_set(replicas=1))
            await cluster.until(lambda: cluster.events("SuccessfulUpdate"))
            assert cluster.get(PODS, "db-0")["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-0"
            assert "ownerReferences" not in cluster.get(PODS, "stranger")["metadata"]

    idle.run(scenario())
