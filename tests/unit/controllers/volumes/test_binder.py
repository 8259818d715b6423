"""The volume controller binds claims to volumes, orders missing volumes, and reclaims released ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import PODS, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from allotment.controllers.volumes.binder import volume_binder
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.volumes.objects import bound_volume, claim, claim_phase, storage_class, volume, volume_phase
from tests.unit.controllers.world import NAMESPACE, World, pod, world


def put(cluster: World, *objects: tuple[Resource, Tree]) -> None:
    for resource, tree in objects:
        cluster.put(resource, tree)


def test_claim_gets_the_smallest_volume_that_is_large_enough() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            for name, size in (("small", "500Mi"), ("large", "5Gi"), ("fits", "2Gi")):
                cluster.put(VOLUMES, volume(name, size))
            await cluster.until(lambda: all(tree["status"]["phase"] == "Available" for tree in cluster.all(VOLUMES)))
            cluster.put(VOLUME_CLAIMS, claim())
            await cluster.until(lambda: bound_volume(cluster) == "fits")
            tree, bound = cluster.get(VOLUME_CLAIMS, "data"), cluster.get(VOLUMES, "fits")
            assert tree["metadata"]["annotations"] == {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }
            assert tree["status"] == {
                "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}
            }  # fmt: skip
            assert bound["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
            assert bound["spec"]["claimRef"]["uid"] == tree["metadata"]["uid"]
            await cluster.until(lambda: volume_phase(cluster, "fits") == "Bound")

    idle.run(scenario())


@pytest.mark.parametrize(
    "wanted",
    [
        {"storage_class": "fast"},
        {"size": "2Gi"},
        {"accessModes": ["ReadWriteMany"]},
        {"volumeMode": "Block"},
        {"selector": {"matchLabels": {"tier": "gold"}}},
        {"volumeAttributesClassName": "silver"},
    ],
    ids=["class", "size", "access-modes", "mode", "selector", "attributes"],
)
def test_volume_that_does_not_match_is_not_bound(wanted: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUMES, volume()), (VOLUME_CLAIMS, claim(**wanted)))
            await cluster.until(lambda: volume_phase(cluster) == "Available")
            await cluster.settled()
            assert claim_phase(cluster) == "Pending"

    idle.run(scenario())


def test_pending_claim_is_bound_when_a_volume_appears() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            cluster.put(VOLUME_CLAIMS, claim())
            await cluster.until(lambda: cluster.events("FailedBinding"))
            assert cluster.events("FailedBinding") == [
                "no persistent volumes available for this claim and no storage class is set"
            ]
            cluster.put(VOLUMES, volume())
            await cluster.until(lambda: bound_volume(cluster) == "disk")

    idle.run(scenario())


def test_two_claims_do_not_get_the_same_volume() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUME_CLAIMS, claim("a")), (VOLUME_CLAIMS, claim("b")), (VOLUMES, volume()))
            await cluster.until(lambda: bound_volume(cluster, "a") or bound_volume(cluster, "b"))
            await cluster.settled()
            assert sorted((claim_phase(cluster, "a"), claim_phase(cluster, "b"))) == ["Bound", "Pending"]

    idle.run(scenario())


def test_volume_is_kept_for_the_claim_that_it_names() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            reserved = volume(claimRef={"namespace": NAMESPACE, "name": "later"})
            put(cluster, (VOLUMES, reserved), (VOLUME_CLAIMS, claim("other")))
            await cluster.until(lambda: cluster.events("FailedBinding"))
            cluster.put(VOLUME_CLAIMS, claim("later"))
            await cluster.until(lambda: bound_volume(cluster, "later") == "disk")
            assert claim_phase(cluster, "other") == "Pending"

    idle.run(scenario())


@pytest.mark.parametrize(
    ("required", "reason"),
    [
        ({"size": "9Gi"}, "requested PV is too small"),
        ({"storage_class": "fast"}, "storageClassName does not match"),
        ({"volumeMode": "Block"}, "incompatible volumeMode"),
        ({"accessModes": ["ReadWriteMany"]}, "incompatible accessMode"),
    ],
    ids=["size", "class", "mode", "access-modes"],
)
def test_claim_that_names_an_unsuitable_volume_says_why_it_is_pending(required: dict[str, Any], reason: str) -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUMES, volume()), (VOLUME_CLAIMS, claim(**required, volumeName="disk")))
            await cluster.until(lambda: cluster.events("VolumeMismatch"))
            assert cluster.events("VolumeMismatch") == [f'Cannot bind to requested volume "disk": {reason}']
            assert claim_phase(cluster) == "Pending"

    idle.run(scenario())


def test_claim_is_bound_to_the_volume_that_it_names() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUMES, volume()), (VOLUME_CLAIMS, claim(volumeName="disk")))
            await cluster.until(lambda: bound_volume(cluster) == "disk")
            annotations = cluster.get(VOLUME_CLAIMS, "data")["metadata"]["annotations"]
            assert annotations == {"pv.kubernetes.io/bind-completed": "yes"}
            cluster.put(VOLUME_CLAIMS, claim("second", volumeName="disk"))
            await cluster.until(lambda: cluster.events("FailedBinding"))
            assert cluster.events("FailedBinding") == ['volume "disk" already bound to a different claim.']

    idle.run(scenario())


@pytest.mark.parametrize(
    ("policy", "phases"), [("Retain", ["Released"]), ("Delete", ["Failed"])], ids=["retain", "delete"]
)
def test_released_volume_is_reclaimed_by_its_policy(policy: str, phases: list[str]) -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUMES, volume(persistentVolumeReclaimPolicy=policy)), (VOLUME_CLAIMS, claim()))
            await cluster.until(lambda: bound_volume(cluster) == "disk")
            cluster.remove(VOLUME_CLAIMS, "data")
            await cluster.until(lambda: [tree["status"]["phase"] for tree in cluster.all(VOLUMES)] == phases)
            if policy == "Delete":
                text = "host_path deleter only supports /tmp/.+ but received provided /srv"
                await cluster.until(lambda: cluster.events("VolumeFailedDelete") == [text])
                assert cluster.get(VOLUMES, "disk")["status"]["message"] == text

    idle.run(scenario())


def test_temporary_volume_is_deleted_with_its_claim() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            temporary = volume(persistentVolumeReclaimPolicy="Delete", hostPath={"path": "/tmp/x"})
            put(cluster, (VOLUMES, temporary), (VOLUME_CLAIMS, claim()))
            await cluster.until(lambda: bound_volume(cluster) == "disk")
            cluster.remove(VOLUME_CLAIMS, "data")
            await cluster.until(lambda: not cluster.all(VOLUMES))

    idle.run(scenario())


def test_recycled_volume_is_available_to_the_next_claim() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUMES, volume(persistentVolumeReclaimPolicy="Recycle")), (VOLUME_CLAIMS, claim()))
            await cluster.until(lambda: bound_volume(cluster) == "disk")
            cluster.remove(VOLUME_CLAIMS, "data")
            await cluster.until(lambda: volume_phase(cluster) == "Available")
            cluster.put(VOLUME_CLAIMS, claim("next"))
            await cluster.until(lambda: bound_volume(cluster, "next") == "disk")

    idle.run(scenario())


def test_claim_whose_volume_is_gone_is_lost() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (VOLUMES, volume()), (VOLUME_CLAIMS, claim()))
            await cluster.until(lambda: bound_volume(cluster) == "disk")
            cluster.remove(VOLUMES, "disk")
            await cluster.until(lambda: claim_phase(cluster) == "Lost")
            assert cluster.get(VOLUME_CLAIMS, "data")["status"] == {"phase": "Lost"}
            await cluster.until(
                lambda: (
                    cluster.events("ClaimLost")
                    == ["Bound claim has lost its PersistentVolume. Data on the volume is lost!"]
                )
            )

    idle.run(scenario())


def test_provisioner_of_the_class_is_ordered_to_create_a_volume() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(cluster, (STORAGE_CLASSES, storage_class("fast")), (VOLUME_CLAIMS, claim(storage_class="fast")))
            await cluster.until(lambda: cluster.events("ExternalProvisioning"))
            annotations = cluster.get(VOLUME_CLAIMS, "data")["metadata"]["annotations"]
            assert set(annotations.values()) == {"example.com/disks"}
            assert "provisioner 'example.com/disks' or manually" in cluster.events("ExternalProvisioning")[0]

    idle.run(scenario())


def test_claim_of_a_missing_class_waits_for_it() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            cluster.put(VOLUME_CLAIMS, claim(storage_class="fast"))
            await cluster.until(lambda: cluster.events("ProvisioningFailed"))
            assert cluster.events("ProvisioningFailed") == ['storageclass.storage.k8s.io "fast" not found']
            cluster.put(STORAGE_CLASSES, storage_class("fast"))
            await cluster.until(lambda: cluster.events("ExternalProvisioning"))

    idle.run(scenario())


def test_claim_without_class_gets_the_default_class_that_is_created_later() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            cluster.put(VOLUME_CLAIMS, claim(storage_class=None))
            await cluster.until(lambda: cluster.events("FailedBinding"))
            cluster.put(STORAGE_CLASSES, storage_class("fast", default=True))
            await cluster.until(lambda: cluster.get(VOLUME_CLAIMS, "data")["spec"].get("storageClassName") == "fast")

    idle.run(scenario())


def test_claim_that_waits_for_its_first_pod_is_not_bound_before() -> None:
    async def scenario() -> None:
        async with world(volume_binder) as cluster:
            put(
                cluster,
                (STORAGE_CLASSES, storage_class("fast", volumeBindingMode="WaitForFirstConsumer")),
                (VOLUMES, volume(storage_class="fast")), (VOLUME_CLAIMS, claim(storage_class="fast")),
            )  # fmt: skip
            await cluster.until(lambda: cluster.events("WaitForFirstConsumer"))
            spec = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
            cluster.put(PODS, pod("web", spec=spec))
            await cluster.until(
                lambda: cluster.events("WaitForPodScheduled") == ["waiting for pod web to be scheduled"]
            )
            assert claim_phase(cluster) == "Pending"
            disk = cluster.get(VOLUMES, "disk")
            uid = cluster.get(VOLUME_CLAIMS, "data")["metadata"]["uid"]
            reserved = {"namespace": NAMESPACE, "name": "data", "uid": uid}
            cluster.put(VOLUMES, {**disk, "spec": {**disk["spec"], "claimRef": reserved}})  # by the scheduler
            await cluster.until(lambda: bound_volume(cluster) == "disk")

    idle.run(scenario())


def test_controller_that_stops_between_two_writes_completes_the_binding() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            tree = cluster.put(VOLUME_CLAIMS, claim())
            reserved = {"namespace": NAMESPACE, "name": "data", "uid": tree["metadata"]["uid"]}
            cluster.put(VOLUMES, volume(claimRef=reserved))
            client = cluster.client
        async with world(volume_binder, client=client) as cluster:
            await cluster.until(lambda: bound_volume(cluster) == "disk")
            await asyncio.sleep(0)

    idle.run(scenario())
