"""Pods wait for what their volumes need, with the kubelet's events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.cluster.resources import CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, VOLUMES
from allotment.model.trees import Tree
from allotment.node.container_files import File
from allotment.node.node_config import Machine
from tests.unit.cluster import idle
from tests.unit.node.world import NAMESPACE, World, world

MOUNTED: Tree = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
CLAIM: Tree = {"persistentVolumeClaim": {"claimName": "data"}}


def run_scenario(scenario: Callable[[World], Awaitable[None]], **more: Any) -> None:
    async def run() -> None:
        async with world(**more) as on:
            await scenario(on)

    idle.run(run())


def with_volume(on: World, source: Tree, name: str = "p") -> None:
    on.pod(name, main=MOUNTED, volumes=[{"name": "v", **source}])


def put_claim(on: World, *, phase: str = "Bound") -> None:
    metadata = {"name": "data", "namespace": NAMESPACE}
    spec = {"volumeName": "disk"} if phase == "Bound" else {}
    on.client.put(VOLUME_CLAIMS, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def put_volume(on: World, *, provisioner: str = "allotment.dev/volumes") -> None:
    annotations = {"pv.kubernetes.io/provisioned-by": provisioner}
    on.client.put(VOLUMES, {"metadata": {"name": "disk", "annotations": annotations}, "spec": {}})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"secret": {"secretName": "s"}}, 'MountVolume.SetUp failed for volume "v" : secret "s" not found'),
        ({"configMap": {"name": "c"}}, 'MountVolume.SetUp failed for volume "v" : configmap "c" not found'),
        (
            {"projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}},
            'MountVolume.SetUp failed for volume "v" : [secret "s" not found, configmap "c" not found]',
        ),
        (
            {"secret": {"secretName": "known", "items": [{"key": "a", "path": "a"}, {"key": "x", "path": "x"}]}},
            'MountVolume.SetUp failed for volume "v" : references non-existent secret key: x',
        ),
        (
            {"configMap": {"name": "known", "items": [{"key": "x", "path": "x"}]}},
            'MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: x',
        ),
    ],
    ids=["secret", "config-map", "projected", "secret-key", "config-map-key"],
)
def test_pod_waits_for_config_maps_and_secrets(source: Tree, expected: str) -> None:
    async def scenario(on: World) -> None:
        on.client.put(SECRETS, {"metadata": {"name": "known", "namespace": NAMESPACE}, "data": {"a": ""}})
        on.client.put(CONFIG_MAPS, {"metadata": {"name": "known", "namespace": NAMESPACE}, "data": {"a": ""}})
        with_volume(on, source)
        await on.until(on.main)
        await on.flush_events()
        assert on.events("FailedMount") == [expected]
        assert (on.phase(), on.main()["state"]) == ("Pending", {"waiting": {"reason": "ContainerCreating"}})
        for resource, name in ((SECRETS, "s"), (CONFIG_MAPS, "c")):
            on.client.put(resource, {"metadata": {"name": name, "namespace": NAMESPACE}})
        for resource in (SECRETS, CONFIG_MAPS):
            on.client.put(resource, {"metadata": {"name": "known", "namespace": NAMESPACE}, "data": {"a": "", "x": ""}})
        await on.until(lambda: on.phase() == "Running")

    run_scenario(scenario)


def test_optional_sources_and_volumes_that_no_container_mounts_are_not_required() -> None:
    async def scenario(on: World) -> None:
        with_volume(on, {"secret": {"secretName": "s", "optional": True}})
        on.pod("q", volumes=[{"name": "unused", "secret": {"secretName": "s"}}])
        await on.until(lambda: on.phase() == on.phase("q") == "Running")

    run_scenario(scenario)


def test_pod_with_a_node_waits_for_its_volume() -> None:
    async def scenario(on: World) -> None:
        with_volume(on, CLAIM)
        start = (
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process "
            "volumes=[v]: error processing PVC ns/data: "
        )
        missing = 'failed to fetch PVC from API server: persistentvolumeclaims "data" not found'
        await on.until(lambda: start + missing in on.events("FailedMount"))
        put_claim(on, phase="Pending")
        await on.until(lambda: f"{start}PVC is not bound" in on.events("FailedMount"))
        put_claim(on)
        missing = 'failed to fetch PV disk from API server: persistentvolumes "disk" not found'
        await on.until(lambda: start + missing in on.events("FailedMount"))
        put_volume(on)
        await on.until(lambda: on.phase() == "Running")

    run_scenario(scenario)


def test_pod_that_waits_for_a_volume_can_be_deleted() -> None:
    async def scenario(on: World) -> None:
        with_volume(on, CLAIM)
        await on.until(lambda: on.events("FailedMount"))
        on.delete()
        await on.until(lambda: not on.exists())

    run_scenario(scenario)


def test_simulated_containers_find_the_files_of_earlier_ones() -> None:
    async def scenario(on: World) -> None:
        put_claim(on)
        put_volume(on)
        with_volume(on, CLAIM, "first")
        await on.until(lambda: on.phase("first") == "Running")
        files = on.runtime.containers["main"].sandbox.volumes["/v"]
        assert not isinstance(files, File)
        files.children["kept"] = File(b"data")
        on.delete("first")
        await on.until(lambda: not on.exists("first"))
        with_volume(on, CLAIM, "second")
        await on.until(lambda: on.phase("second") == "Running")
        assert on.runtime.containers["main"].sandbox.volumes["/v"] is files
        on.delete("second")
        await on.until(lambda: not on.exists("second"))
        on.client.remove(VOLUMES, "", "disk")
        put_volume(on)
        with_volume(on, CLAIM, "third")
        await on.until(lambda: on.phase("third") == "Running")
        assert on.runtime.containers["main"].sandbox.volumes["/v"] is not files

    run_scenario(scenario)


def test_real_containers_have_the_folder_of_the_volume(tmp_path: Path) -> None:
    volumes = tmp_path / "volumes"

    async def scenario(on: World) -> None:
        put_claim(on)
        put_volume(on)
        with_volume(on, CLAIM)
        await on.until(lambda: on.phase() == "Running")
        (on.runtime.containers["main"].sandbox.mounts["/v"] / "kept").write_text("data")
        on.delete()
        await on.until(lambda: not on.exists())
        assert (volumes / "disk" / "kept").read_text() == "data"

    run_scenario(scenario, machine=Machine(state=tmp_path / "node", volumes=volumes))


def test_other_volumes_are_not_mounted_in_real_containers(tmp_path: Path) -> None:
    async def scenario(on: World) -> None:
        put_claim(on)
        put_volume(on, provisioner="example.com/disks")
        with_volume(on, CLAIM)
        await on.until(lambda: on.phase() == "Running")
        assert on.runtime.containers["main"].sandbox.mounts == {}

    run_scenario(scenario, machine=Machine(state=tmp_path / "node", volumes=tmp_path))
