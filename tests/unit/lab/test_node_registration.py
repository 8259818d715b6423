"""Nodes created by users in a lab: their kubelet registers them, and pods run there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import DEVICE_CLASSES, EVENTS, NODES, PODS
from allotment.lab.control_plane import Plane, running
from allotment.lab.fleet import HARDWARE
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED
from tests.polling import until


def in_lab(test: Callable[[Plane], Awaitable[None]], *without: str) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(240):
            async with running(Settings(fleet=(), tls=False, speed=50.0, without=frozenset(without))) as plane:
                await test(plane)

    asyncio.run(scenario())


def node(name: str, **annotations: str) -> Tree:
    names = {"simulated": SIMULATED, "hardware": HARDWARE}
    return {"metadata": {"name": name, "annotations": {names[key]: value for key, value in annotations.items()}}}


def test_a_created_node_becomes_ready_and_runs_pods() -> None:
    async def test(plane: Plane) -> None:
        client = plane.client()
        await client.create(NODES, node("late", simulated="true", hardware="mi300x"))
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

        async def account() -> bool:
            try:
                await client.create(PODS, pod, "default")
            except StatusError:
                return False
            return True

        async def runs() -> bool:
            return bool((await client.get(PODS, "p", "default"))["status"]["phase"] == "Running")

        await until(account)
        await until(runs)
        late = await client.get(NODES, "late")
        assert "taints" not in late["spec"]
        assert late["status"]["addresses"][0]["type"] == "InternalIP"
        classes = {device_class["metadata"]["name"] for device_class in (await client.list(DEVICE_CLASSES)).items}
        assert "gpu.amd.com" in classes

    in_lab(test)


def test_an_existing_status_is_kept() -> None:
    async def test(plane: Plane) -> None:
        client = plane.client()
        status = {"conditions": [{"type": "Ready", "status": "False"}], "capacity": {"pods": "3"}}
        await client.create(NODES, {**node("own", simulated="true"), "status": status})
        await client.create(NODES, node("late", simulated="true"))

        async def ready() -> bool:
            return bool((await client.get(NODES, "late"))["status"].get("conditions"))

        await until(ready)
        assert (await client.get(NODES, "own"))["status"]["capacity"] == {"pods": "3"}

    in_lab(test)


def test_hardware_of_a_real_node_gets_a_warning() -> None:
    async def test(plane: Plane) -> None:
        client = plane.client()
        await client.create(NODES, node("real", hardware="t4-4x-pcie"))

        async def warned() -> bool:
            events = (await client.list(EVENTS)).items
            return any(event["reason"] == "NotSimulated" and SIMULATED in event["message"] for event in events)

        await until(warned)
        assert not (await client.get(NODES, "real"))["status"].get("conditions")

    in_lab(test)
