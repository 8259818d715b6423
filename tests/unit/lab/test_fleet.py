"""The fleet's nodes and classes in a cluster."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.resources import DEVICE_CLASSES, NODES
from allotment.fleet import FleetError
from allotment.lab.fleet import HARDWARE, publish
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED
from tests.unit.cluster.memory import MemoryClient


async def published(client: MemoryClient, *fleet: str) -> None:
    await publish(client, fleet, kube="1.36", version="1", now="2026-01-01T00:00:00Z")


async def trees(client: MemoryClient) -> tuple[dict[str, Tree], dict[str, Tree]]:
    nodes, classes = [
        {tree["metadata"]["name"]: tree for tree in (await client.list(resource)).items}
        for resource in (NODES, DEVICE_CLASSES)
    ]
    return nodes, classes


def test_nodes_are_ready_and_declare_hardware_and_classes_exist() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "t4-4x-pcie:2", "big=mi300x-8x-oam")
        nodes, classes = await trees(client)
        assert sorted(nodes) == ["big", "t4-4x-pcie-1", "t4-4x-pcie-2"]
        assert {"gpu.nvidia.com", "gpu.amd.com"} <= set(classes)
        addresses = [node["status"]["addresses"][0]["address"] for node in nodes.values()]
        assert len(set(addresses)) == 3
        for node in nodes.values():
            assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        annotations = {name: node["metadata"]["annotations"][HARDWARE] for name, node in nodes.items()}
        assert annotations == {"big": "mi300x-8x-oam", "t4-4x-pcie-1": "t4-4x-pcie", "t4-4x-pcie-2": "t4-4x-pcie"}

    asyncio.run(test())


def test_an_unchanged_fleet_changes_nothing() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "t4-4x-pcie:2")
        before = await trees(client)
        await published(client, "t4-4x-pcie:2")
        assert await trees(client) == before

    asyncio.run(test())


def test_another_fleet_replaces_only_the_nodes_of_the_first() -> None:
    async def test() -> None:
        client = MemoryClient()
        await client.create(NODES, {"metadata": {"name": "real"}})
        await published(client, "t4-4x-pcie:2")
        await published(client, "t4-4x-pcie:3")
        nodes, _ = await trees(client)
        assert sorted(nodes) == ["real", "t4-4x-pcie-1", "t4-4x-pcie-2", "t4-4x-pcie-3"]
        addresses = [node["status"]["addresses"][0]["address"] for node in nodes.values() if "status" in node]
        assert len(set(addresses)) == 3
        await published(client)
        nodes, _ = await trees(client)
        assert list(nodes) == ["real"]

    asyncio.run(test())


def test_nodes_of_users_and_clouds_are_kept_when_the_fleet_changes() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "t4-4x-pcie")
        for name in ("mine", "of-a-cloud"):
            annotations = {SIMULATED: "true", HARDWARE: "mi300x"}
            await client.create(NODES, {"metadata": {"name": name, "annotations": annotations}})
        await published(client, "big=mi300x-8x-oam")
        nodes, _ = await trees(client)
        assert sorted(nodes) == ["big", "mine", "of-a-cloud"]
        await published(client)
        nodes, _ = await trees(client)
        assert sorted(nodes) == ["mine", "of-a-cloud"]

    asyncio.run(test())


def test_an_adopted_node_belongs_to_the_fleet() -> None:
    async def test() -> None:
        client = MemoryClient()
        annotations = {SIMULATED: "true", HARDWARE: "mi300x"}
        await client.create(NODES, {"metadata": {"name": "a", "annotations": annotations}})
        await published(client, "a=mi300x")
        await published(client)
        nodes, _ = await trees(client)
        assert nodes == {}

    asyncio.run(test())


def test_changed_hardware_is_declared_on_the_node() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "a=t4-4x-pcie")
        await published(client, "a=2xt4/shared")
        nodes, _ = await trees(client)
        assert nodes["a"]["metadata"]["annotations"][HARDWARE] == "2xt4/shared"

    asyncio.run(test())


def test_an_invalid_fleet_is_rejected_before_any_write() -> None:
    async def test() -> None:
        client = MemoryClient()
        with pytest.raises(FleetError):
            await published(client, "t4-4x-pcie", "tpu-v7")
        assert client.objects == {}

    asyncio.run(test())
