"""Per-node behaviour: leases, conditions, and ResourceSlices of unregistered drivers."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest

from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import LEASES, NODES, PODS, SLICES
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.sockets import socket_paths
from allotment.model.features import Features
from allotment.node import checkpoint, driver_lifecycle, leases
from allotment.node.checkpoint import ClaimRecord
from allotment.node.kubelet_features import kubelet_features
from allotment.node.leases import NAMESPACE, Leases, period
from allotment.node.node_config import Machine
from allotment.node.plugins import Plugins
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.node.world import DRIVER, NODE, Cluster, FakeDriver, world


def leases_of(client: Cluster) -> dict[str, dict[str, Any]]:
    return {name: tree["spec"] for (kind, _, name), tree in client.objects.items() if kind == LEASES}


def test_every_node_has_a_lease() -> None:
    async def run() -> None:
        async with world(speed=1.0) as on:
            await on.until(lambda: leases_of(on.client))
            spec = leases_of(on.client)[NODE]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (NODE, 40)
            owner = on.client.objects[LEASES, NAMESPACE, NODE]["metadata"]["ownerReferences"][0]
            assert (owner["kind"], owner["name"]) == ("Node", NODE)

    idle.run(asyncio.wait_for(run(), 10))


def test_leases_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_PERIOD", 0.1)
    client = Cluster()

    async def run() -> set[str]:
        task = asyncio.create_task(Leases(client, IdleClock(), lambda: [(NODE, "uid")]).run())
        seen: set[str] = set()
        while len(seen) < 3:
            seen |= {spec["renewTime"] for spec in leases_of(client).values()}
            await asyncio.sleep(0.01)
            if "lost" not in seen and len(seen) == 1:
                client.remove(LEASES, NAMESPACE, NODE)  # the lease is deleted
                seen.add("lost")
        task.cancel()
        return seen

    assert len(idle.run(asyncio.wait_for(run(), 10))) == 3


@pytest.mark.parametrize("speed", [0.5, 1, 1000])
def test_a_fast_clock_and_many_nodes_make_no_more_writes_but_longer_leases(speed: float) -> None:
    client = Cluster()
    nodes = [(f"n{i}", f"uid-{i}") for i in range(1000)]

    async def run() -> None:
        task = asyncio.create_task(Leases(client, IdleClock(speed), lambda: nodes).run())
        await asyncio.sleep(0.1)
        task.cancel()

    idle.run(asyncio.wait_for(run(), 10))
    written = leases_of(client)
    assert len(written) == 100, "ten per second"
    assert {spec["leaseDurationSeconds"] for spec in written.values()} == {4 * period(1000) * max(speed, 1)}


def conditions_of(client: Cluster) -> dict[str, tuple[str, str]]:
    conditions = client.objects[NODES, "", NODE]["status"].get("conditions") or ()
    return {condition["type"]: (condition["status"], condition.get("reason", "")) for condition in conditions}


def give_up(client: Cluster, status: str, reason: str) -> None:
    node = client.objects[NODES, "", NODE]
    types = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [{"type": type, "status": status, "reason": reason} for type in types]
    client.put(NODES, {**node, "status": {**node["status"], "conditions": conditions}})


@pytest.mark.parametrize("reason", ["NodeStatusUnknown", "NodeStatusNeverUpdated"])
def test_a_node_that_the_control_plane_has_lost_reports_again(reason: str) -> None:
    async def run() -> None:
        async with world(speed=1.0) as on:
            for _ in range(2):
                give_up(on.client, "Unknown", reason)
                await on.until(lambda: conditions_of(on.client)["Ready"] == ("True", "KubeletReady"))
                assert conditions_of(on.client)["DiskPressure"] == ("False", "KubeletHasNoDiskPressure")

    idle.run(asyncio.wait_for(run(), 100))


@pytest.mark.parametrize(("status", "reason"), [("False", "KubeletNotReady"), ("Unknown", "Maintenance")])
def test_conditions_that_a_client_has_written_stay(status: str, reason: str) -> None:
    async def run() -> None:
        async with world(speed=1.0) as on:
            await on.until(lambda: leases_of(on.client))
            give_up(on.client, status, reason)
            await asyncio.sleep(60)
            assert conditions_of(on.client)["Ready"] == (status, reason)

    idle.run(asyncio.wait_for(run(), 100))


@pytest.mark.parametrize("reason", [{"reason": "NodeNotReady"}, {}])
def test_pods_of_a_recovered_node_are_reported_again(reason: dict[str, str]) -> None:
    async def run() -> None:
        async with world(speed=1.0) as on:
            on.pod()
            await on.until(lambda: on.ready() == "True")
            tree = on.now()
            conditions = [
                {**condition, "status": "False", **reason} if condition["type"] == "Ready" else condition
                for condition in tree["status"]["conditions"]
            ]
            on.client.put(PODS, {**tree, "status": {**tree["status"], "conditions": conditions}})
            assert on.ready() == "False"
            await on.until(lambda: on.ready() == "True")

    idle.run(asyncio.wait_for(run(), 100))


def test_slices_of_an_unregistered_driver_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_lifecycle, "GONE_SECONDS", 0.1)
    monkeypatch.setattr(driver_lifecycle, "_AGAIN_SECONDS", 0.1)

    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="al-") as text:
            folder = Path(text)
            endpoint, registration = socket_paths(DRIVER, plugins_dir=folder / "plugins", registry_dir=folder / "reg")
            plugins = Plugins(permissive=False)
            (folder / "reg").mkdir()
            driver = FakeDriver()
            async with world(plugins=plugins, speed=100.0) as on:
                plugins.watch_folder(NODE, folder / "reg")
                for name, of in (("mine", DRIVER), ("other", "other.example.com")):
                    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
                    spec = {"driver": of, "nodeName": NODE, "pool": pool, "devices": []}
                    on.client.put(SLICES, {"metadata": {"name": name}, "spec": spec})
                async with serve_plugin(driver, endpoint, registration, on_registered=lambda good, error: None):
                    on.claim()
                    on.pod(**on.with_claim())
                    await on.until(lambda: on.phase() == "Running")
                    assert driver.calls == [("prepare", ["gpu"])], "over its socket"
                    assert (SLICES, "", "mine") in on.client.objects
                    on.client.undeletable.append(Unreachable("no answer"))
                await on.until(lambda: (SLICES, "", "mine") not in on.client.objects)
                assert (SLICES, "", "other") in on.client.objects

    # In real time: gRPC uses threads, and simulated time would pass while it connects.
    asyncio.run(asyncio.wait_for(run(), 120))


def test_claims_of_pods_deleted_during_a_restart_are_unprepared(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, [ClaimRecord("ns", "old", "uid-of-old", frozenset(["uid-gone"]), {DRIVER: ()})])
    driver = FakeDriver()

    async def run() -> None:
        async with world(driver, machine=Machine(state=tmp_path)) as on:
            await on.until(lambda: driver.calls == [("unprepare", ["old"])])
            await on.until(lambda: checkpoint.load(tmp_path) == ())

    idle.run(asyncio.wait_for(run(), 10))


def test_a_node_with_a_corrupt_checkpoint_runs_no_pods(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / checkpoint.FILE).write_text("not at all")

    async def run() -> None:
        async with world(machine=Machine(state=tmp_path)) as on:
            on.pod()
            await on.until(lambda: "cannot run pods" in caplog.text)
            assert not on.runtime.started

    idle.run(asyncio.wait_for(run(), 10))


# --- declared features ----------------------------------------------------------------------------------------------


def declared_of(client: Cluster) -> list[str]:
    declared: list[str] = client.objects[NODES, "", NODE]["status"].get("declaredFeatures") or []
    return declared


@pytest.mark.parametrize(
    ("gates", "declared"),
    [
        ({}, []),
        ({"DRAOptionalNodeOperations": True}, ["DRAOptionalNodeOperations"]),
        (
            {"DRAOptionalNodeOperations": True, "DRANodeAllocatableResources": True},
            ["DRANodeAllocatableResources", "DRAOptionalNodeOperations"],
        ),
    ],
)
def test_a_kubelet_declares_its_gates(gates: dict[str, bool], declared: list[str]) -> None:
    async def run() -> None:
        async with world(features=kubelet_features(Features("1.37", gates))) as on:
            await on.until(lambda: leases_of(on.client))
            await on.until(lambda: declared_of(on.client) == declared)

    idle.run(asyncio.wait_for(run(), 10))


def test_a_kubelet_takes_back_what_it_does_not_support_and_keeps_other_features() -> None:
    async def run() -> None:
        async with world(features=kubelet_features(Features("1.37"))) as on:
            node = on.client.objects[NODES, "", NODE]
            declared = ["DRAOptionalNodeOperations", "RestartAllContainersOnContainerExits"]
            on.client.put(NODES, {**node, "status": {**node["status"], "declaredFeatures": declared}})
            await on.until(lambda: declared_of(on.client) == ["RestartAllContainersOnContainerExits"])

    idle.run(asyncio.wait_for(run(), 10))


def test_kubelets_of_1_36_declare_no_features_of_devices() -> None:
    gates = {"DRANodeAllocatableResources": True}
    assert kubelet_features(Features("1.36", gates)).declared == ()
    assert kubelet_features(Features("1.37", gates)).declared == ("DRANodeAllocatableResources",)


def test_kubelets_call_the_health_services_of_their_release() -> None:
    assert kubelet_features(Features("1.36")).health_services == ("v1alpha1.DRAResourceHealth",)
    assert kubelet_features(Features("1.37")).health_services == (
        "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"
    )  # fmt: skip
