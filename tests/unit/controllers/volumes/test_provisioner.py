"""A lab provisions the volumes of its default class immediately, expands them, and deletes them with their claims."""

from __future__ import annotations

from pathlib import Path

from allotment.cluster.resources import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from allotment.controllers.volumes.binder import volume_binder
from allotment.controllers.volumes.provisioner import NAME, volume_provisioner
from tests.unit.cluster import idle
from tests.unit.controllers.volumes.objects import bound_volume, claim, claim_phase, storage_class
from tests.unit.controllers.world import world


def test_claim_without_class_gets_a_volume_of_the_default_class() -> None:
    async def scenario() -> None:
        async with world(volume_binder, volume_provisioner()) as cluster:
            tree = cluster.put(VOLUME_CLAIMS, claim(storage_class=None))
            name = f"pvc-{tree['metadata']['uid']}"
            await cluster.until(lambda: bound_volume(cluster) == name)
            assert cluster.get(VOLUME_CLAIMS, "data")["spec"]["storageClassName"] == "standard"
            assert cluster.get(VOLUMES, name)["spec"]["capacity"] == {"storage": "1Gi"}
            await cluster.until(lambda: cluster.events("ProvisioningSucceeded"))
            assert cluster.events("Provisioning") == ['External provisioner is provisioning volume for claim "ns/data"']
            assert cluster.events("ProvisioningSucceeded") == [f"Successfully provisioned volume {name}"]
            cluster.remove(VOLUME_CLAIMS, "data")
            await cluster.until(lambda: not cluster.all(VOLUMES))

    idle.run(scenario())


def test_other_default_class_is_not_replaced() -> None:
    async def scenario() -> None:
        async with world() as cluster:
            cluster.put(STORAGE_CLASSES, storage_class("fast", default=True))
            client = cluster.client
        async with world(volume_provisioner(), client=client) as cluster:
            await cluster.settled()
            assert cluster.names(STORAGE_CLASSES) == ["fast"]

    idle.run(scenario())


def test_volume_of_a_claim_that_waits_for_its_pod_is_created_when_a_node_is_selected() -> None:
    async def scenario() -> None:
        async with world(volume_binder, volume_provisioner()) as cluster:
            cluster.put(STORAGE_CLASSES, storage_class("late", NAME, volumeBindingMode="WaitForFirstConsumer"))
            cluster.put(VOLUME_CLAIMS, claim(storage_class="late"))
            await cluster.until(lambda: cluster.events("WaitForFirstConsumer"))
            assert not cluster.all(VOLUMES)
            metadata = {"annotations": {"volume.kubernetes.io/selected-node": "a"}}
            cluster.change(VOLUME_CLAIMS, "data", metadata=metadata)
            await cluster.until(lambda: claim_phase(cluster) == "Bound")

    idle.run(scenario())


def test_claim_and_volume_grow_when_more_is_requested() -> None:
    async def scenario() -> None:
        async with world(volume_binder, volume_provisioner()) as cluster:
            cluster.put(VOLUME_CLAIMS, claim(storage_class=None))
            await cluster.until(lambda: bound_volume(cluster))
            known = cluster.get(VOLUME_CLAIMS, "data")["spec"]
            cluster.change(VOLUME_CLAIMS, "data", spec={**known, "resources": {"requests": {"storage": "3Gi"}}})
            await cluster.until(lambda: cluster.get(VOLUME_CLAIMS, "data")["status"]["capacity"] == {"storage": "3Gi"})
            assert cluster.all(VOLUMES)[0]["spec"]["capacity"] == {"storage": "3Gi"}
            await cluster.until(lambda: cluster.events("VolumeResizeSuccessful"))

    idle.run(scenario())


def test_files_are_removed_with_the_volume(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(volume_binder, volume_provisioner(tmp_path)) as cluster:
            cluster.put(VOLUME_CLAIMS, claim(storage_class=None))
            await cluster.until(lambda: bound_volume(cluster))
            folder = tmp_path / bound_volume(cluster)
            folder.mkdir()
            (folder / "file").write_text("data")
            cluster.remove(VOLUME_CLAIMS, "data")
            await cluster.until(lambda: not folder.exists())

    idle.run(scenario())
