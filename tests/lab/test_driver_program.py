"""A driver in a process of its own, with a lab over HTTP and a kubelet on its sockets."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from allotment.cluster.clock import Clock
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import CLAIMS, NODES, SLICES
from allotment.drivers.example.driver import ExampleGpus
from allotment.drivers.program import DriverOptions, serve_in_cluster
from allotment.fleet.modes import ExampleMode
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.kubelet_plugin.plugin_watcher import PluginRegistry
from tests.lab.harness import lab_harness

NODE = "real"


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="al-"))  # a socket's path must be short
    yield path
    shutil.rmtree(path)


def test_it_publishes_prepares_writes_the_claims_status_and_ends(folder: Path) -> None:
    async def main() -> None:
        async with lab_harness() as lab:
            await lab.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
            request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
            claim = await lab.create(
                {
                    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
                    "spec": {"devices": {"requests": [request]}},
                }
            )  # fmt: skip
            result = {"request": "gpu", "driver": "gpu.example.com", "pool": NODE, "device": "gpu-1"}
            given = {**claim, "status": {"allocation": {"devices": {"results": [result]}}}}
            await lab.client.update(CLAIMS, given, subresource="status")
            ref = ClaimRef("default", claim["metadata"]["uid"], "c")
            place = DriverOptions(NODE, "", folder / "plugins", folder / "registry", folder / "cdi")
            place.registry.mkdir()
            connected, stop = asyncio.Event(), asyncio.Event()
            registry = PluginRegistry(place.registry, Clock(50.0), on_change=lambda driver, plugin: connected.set())
            driver = ExampleGpus(NODE, 2, ExampleMode(status=True))
            async with asyncio.TaskGroup() as group:
                kubelet = group.create_task(registry.run())
                program = group.create_task(
                    serve_in_cluster(driver, place, ClusterTarget(lab.plane.access.server), stop)
                )
                await connected.wait()
                plugin = registry.find("gpu.example.com")
                assert plugin is not None
                assert (await plugin.prepare([ref]))[ref.uid].error == ""
                assert [path.name for path in place.cdi.iterdir()] == [f"k8s.gpu.example.com-claim_{ref.uid}.json"]
                while not (await lab.client.get(CLAIMS, "c", "default"))["status"].get("devices"):
                    await asyncio.sleep(0.005)
                written = await lab.client.get(CLAIMS, "c", "default")
                (device,) = written["status"]["devices"]
                assert (device["device"], device["conditions"][0]["type"]) == ("gpu-1", "Ready")
                assert "gpu.example.com" in {field["manager"] for field in written["metadata"]["managedFields"]}
                while not (slices := (await lab.client.list(SLICES)).items):
                    await asyncio.sleep(0.005)
                assert [each["name"] for each in slices[0]["spec"]["devices"]] == ["gpu-0", "gpu-1"]
                assert await plugin.unprepare([ref]) == {ref.uid: ""}
                stop.set()
                await program
                kubelet.cancel()
            assert list(place.registry.iterdir()) == []
            assert len((await lab.client.list(SLICES)).items) == 1

    asyncio.run(main())
