"""Drivers of simulated nodes: the published devices match the hardware that nodes declare."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec
from allotment.cluster.resources import CLAIMS, EVENTS, NODES, PODS, SLICES
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.fleet import parse_fleet, slices_of
from allotment.lab.control_plane import Plane, running
from allotment.lab.drivers import FAULTS
from allotment.lab.fleet import HARDWARE
from allotment.lab.settings import Settings
from allotment.model.trees import Tree, to_tree
from allotment.node.kubelet import SIMULATED
from tests.polling import until

TIMEOUT = 5.0


def in_lab(test: Callable[[Plane], Awaitable[None]], *fleet: str) -> None:
    async def scenario() -> None:
        async with running(Settings(fleet=fleet, tls=False, speed=50.0)) as plane:
            await test(plane)

    asyncio.run(scenario())


async def slices(plane: Plane, node: str = "") -> list[Tree]:
    found = (await plane.client().list(SLICES)).items
    return sorted(
        (slice_ for slice_ in found if node in ("", slice_["spec"]["nodeName"])),
        key=lambda slice_: str(slice_["metadata"]["name"]),
    )


def node(name: str, hardware: str) -> Tree:
    return {"metadata": {"name": name, "annotations": {SIMULATED: "true", HARDWARE: hardware}}}


def test_a_ready_lab_has_the_slices_of_its_fleet() -> None:
    fleet = (
        "a=dgx-a100-40gb/dynamic-mig",
        "b=t4-4x-pcie",
        "c=mi300x-8x-oam/cpx@v0",
        "d=dgx-a100-40gb/static-mig=1g.5gb:7",
    )

    async def test(plane: Plane) -> None:
        for machine in parse_fleet(fleet):
            wanted = [to_tree(slice_)["spec"] for slice_ in slices_of(machine.hardware, machine.mode, machine.node)]
            assert [slice_["spec"] for slice_ in await slices(plane, machine.node)] == wanted

    in_lab(test, *fleet)


def test_slices_are_owned_by_their_node_and_named_by_index() -> None:
    async def test(plane: Plane) -> None:
        owner = await plane.client().get(NODES, "a")
        found = await slices(plane, "a")
        assert [slice_["metadata"]["generateName"] for slice_ in found] == [
            f"{index:05x}-gpu.nvidia.com-a-" for index in range(len(found))
        ]
        assert {slice_["metadata"]["ownerReferences"][0]["uid"] for slice_ in found} == {owner["metadata"]["uid"]}

    in_lab(test, "a=2xa100-40gb/dynamic-mig")


def test_devices_follow_created_and_deleted_nodes() -> None:
    async def test(plane: Plane) -> None:
        client = plane.client()
        await client.create(NODES, node("late", "2xl4"))

        async def published() -> bool:
            return [len(slice_["spec"]["devices"]) for slice_ in await slices(plane, "late")] == [2]

        await until(published)
        await client.delete(NODES, "late")

        async def gone() -> bool:
            return not await slices(plane, "late")

        await until(gone)

    in_lab(test)


def test_changed_hardware_starts_a_new_pool_generation() -> None:
    async def test(plane: Plane) -> None:
        (before,) = await slices(plane, "a")
        await plane.client().patch(NODES, "a", {"metadata": {"annotations": {HARDWARE: "2xt4"}}})

        async def changed() -> bool:
            (after,) = await slices(plane, "a")
            return len(after["spec"]["devices"]) == 2

        await until(changed)
        (after,) = await slices(plane, "a")
        assert after["spec"]["pool"]["generation"] > before["spec"]["pool"]["generation"]

    in_lab(test, "a=4xt4")


def test_unknown_hardware_is_reported_on_its_node() -> None:
    async def test(plane: Plane) -> None:
        await plane.client().create(NODES, node("odd", "4xl5"))

        async def warned() -> bool:
            items = (await plane.client().list(EVENTS, fields="involvedObject.name=odd,reason=UnknownHardware")).items
            return any("unknown hardware 'l5'" in item["message"] for item in items)

        await until(warned)

    in_lab(test)


def test_changed_hardware_replaces_the_devices() -> None:
    async def test(plane: Plane) -> None:
        async def set_hardware(form: str, *drivers: str) -> None:
            await plane.client().patch(NODES, "a", {"metadata": {"annotations": {HARDWARE: form}}})

            async def published() -> bool:
                return {slice_["spec"]["driver"] for slice_ in await slices(plane, "a")} == set(drivers)

            await until(published)

        await set_hardware("mi300x", "gpu.amd.com")
        await set_hardware("t5-4x-pcie")  # a mistake
        await set_hardware("l4", "gpu.nvidia.com")
        await set_hardware("l4:2")

        async def warned() -> bool:
            events = (await plane.client().list(EVENTS, fields="reason=UnknownHardware")).items
            return any("expected the hardware of one node, found 'l4:2'" in event["message"] for event in events)

        await until(warned)

    in_lab(test, "a=t4")


def test_pods_of_a_deleted_node_do_not_wait_for_a_driver() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim = {"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}}
    main = {"name": "main", "image": "app", "resources": {"claims": [{"name": "c"}]}}
    spec = {"containers": [main], "resourceClaims": [{"name": "c", "resourceClaimName": "gpu"}]}

    async def test(plane: Plane) -> None:
        client = plane.client()
        await client.create(CLAIMS, claim, "default")
        uid = (await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default"))["metadata"]["uid"]

        async def runs() -> bool:
            pod = await client.get(PODS, "p", "default")
            return bool((pod.get("status") or {}).get("phase") == "Running")

        await until(runs)
        run = plane.environment.kubelets.find(uid)
        assert run is not None
        claims = run.context.claims
        assert claims.has_claims(uid)
        await client.delete(NODES, "a")

        async def unprepared() -> bool:
            return not claims.has_claims(uid)

        await until(unprepared)

    in_lab(test, "a=4xt4")


def test_pods_bound_before_their_node_exists_use_the_cdi_files_of_its_drivers() -> None:
    spec = {"nodeName": "late", "containers": [{"name": "main", "image": "app"}]}

    async def test(plane: Plane) -> None:
        client = plane.client()
        uid = (await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default"))["metadata"]["uid"]
        await client.create(NODES, node("late", "4xt4"))
        await until(lambda: plane.environment.kubelets.find(uid) and plane.drivers.of("late"))
        run, (driver,) = plane.environment.kubelets.find(uid), plane.drivers.of("late")
        assert run is not None
        edits = ContainerEdits(env=("A=b",))
        driver.host.cdi.write("example", Spec("example.com/gpu", (CdiDevice("gpu-0", edits),)))
        assert "example.com/gpu=gpu-0" in run.context.cdi.names()

    in_lab(test, "a=4xt4")


def test_failing_drivers_of_a_node_do_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    recover = NodeDriver.recover
    broken: list[str] = []

    async def breaking(self: NodeDriver) -> None:
        if self.host.node == "late" and len(broken) < 3:
            broken.append(self.name)
            raise RuntimeError("a mistake of the driver")
        await recover(self)

    monkeypatch.setattr(NodeDriver, "recover", breaking)

    async def test(plane: Plane) -> None:
        (good,) = plane.drivers.of("a")
        await plane.client().create(NODES, node("late", "4xt4"))

        async def published() -> bool:
            return len(await slices(plane, "late")) == 1

        await until(published)
        assert plane.drivers.of("a") == (good,), "the other drivers kept running"
        assert broken == ["gpu.nvidia.com"] * 3

    in_lab(test, "a=4xt4")


def test_a_removed_gpu_is_unpublished_until_it_is_added_again() -> None:
    async def test(plane: Plane) -> None:
        client = plane.client()
        (before,) = await slices(plane, "a")
        names = [device["name"] for device in before["spec"]["devices"]]

        def shows(wanted: list[str]) -> Callable[[], Awaitable[bool]]:
            async def found() -> bool:
                (slice_,) = await slices(plane, "a")
                return [device["name"] for device in slice_["spec"]["devices"]] == wanted

            return found

        await client.patch(NODES, "a", {"metadata": {"annotations": {FAULTS: "gpu-1=gone"}}})
        await until(shows([name for name in names if name != "gpu-1"]))
        (after,) = await slices(plane, "a")
        assert after["spec"]["pool"]["generation"] > before["spec"]["pool"]["generation"]
        await client.patch(NODES, "a", {"metadata": {"annotations": {FAULTS: None}}})
        await until(shows(names))

    in_lab(test, "a=4xt4")


def test_a_gpu_with_a_critical_error_is_tainted_until_repaired() -> None:
    async def test(plane: Plane) -> None:
        client = plane.client()

        async def taints() -> list[tuple[str, str, str]]:
            (slice_,) = await slices(plane, "a")
            return [
                (device["name"], taint["key"], taint["effect"])
                for device in slice_["spec"]["devices"]
                for taint in device.get("taints") or ()
            ]

        async def tainted() -> bool:
            return await taints() == [("gpu-0", "gpu.nvidia.com/xid", "NoSchedule")]

        async def clean() -> bool:
            return not await taints()

        await client.patch(NODES, "a", {"metadata": {"annotations": {FAULTS: "gpu-0=xid-79"}}})
        await until(tainted)
        await client.patch(NODES, "a", {"metadata": {"annotations": {FAULTS: ""}}})
        await until(clean)

    in_lab(test, "a=2xt4")
