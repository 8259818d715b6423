"""The fleet's nodes, slices and classes in a cluster."""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.client import Tree
from allotment.cluster.resources import DEVICE_CLASSES, NODES, SLICES
from allotment.fleet import FleetError
from allotment.lab.fleet import publish
from tests.unit.cluster.memory import MemoryClient


async def published(client: MemoryClient, *fleet: str) -> None:
    await publish(client, fleet, kube="1.36", version="1", now="2026-01-01T00:00:00Z")


async def trees(client: MemoryClient) -> tuple[dict[str, Tree], dict[str, Tree], dict[str, Tree]]:
    nodes, slices, classes = [
        {tree["metadata"]["name"]: tree for tree in (await client.list(resource)).items}
        for resource in (NODES, SLICES, DEVICE_CLASSES)
    ]
    return nodes, slices, classes


def test_nodes_come_ready_with_their_slices_and_their_vendors_classes() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "t4-4x-pcie:2", "big=mi300x-8x-oam")
        nodes, slices, classes = await trees(client)
        assert sorted(nodes) == ["big", "t4-4x-pcie-1", "t4-4x-pcie-2"]
        assert {"gpu.nvidia.com", "gpu.amd.com"} <= set(classes)
        addresses = [node["status"]["addresses"][0]["address"] for node in nodes.values()]
        assert len(set(addresses)) == 3
        for node in nodes.values():
            assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"
        for one in slices.values():
            (owner,) = one["metadata"]["ownerReferences"]
            assert owner["uid"] == nodes[one["spec"]["nodeName"]]["metadata"]["uid"]

    asyncio.run(test())


def test_the_same_fleet_again_changes_nothing() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "t4-4x-pcie:2")
        before = await trees(client)
        await published(client, "t4-4x-pcie:2")
        assert await trees(client) == before

    asyncio.run(test())


def test_another_fleet_takes_the_place_of_the_first_and_leaves_others_nodes() -> None:
    async def test() -> None:
        client = MemoryClient()
        await client.create(NODES, {"metadata": {"name": "real"}})
        await published(client, "t4-4x-pcie:2")
        await published(client, "t4-4x-pcie:3")
        nodes, _, _ = await trees(client)
        assert sorted(nodes) == ["real", "t4-4x-pcie-1", "t4-4x-pcie-2", "t4-4x-pcie-3"]
        addresses = [node["status"]["addresses"][0]["address"] for node in nodes.values() if "status" in node]
        assert len(set(addresses)) == 3
        await published(client)
        nodes, _, _ = await trees(client)
        assert list(nodes) == ["real"]

    asyncio.run(test())


def test_a_node_of_a_new_make_publishes_a_new_generation() -> None:
    async def test() -> None:
        client = MemoryClient()
        await published(client, "a=t4-4x-pcie")
        _, before, _ = await trees(client)
        await published(client, "a=2xt4")
        _, after, _ = await trees(client)
        (name,) = before
        assert len(after[name]["spec"]["devices"]) == 2
        assert after[name]["spec"]["pool"]["generation"] == before[name]["spec"]["pool"]["generation"] + 1

    asyncio.run(test())


def test_a_fleet_that_is_none_is_refused_before_anything_is_written() -> None:
    async def test() -> None:
        client = MemoryClient()
        with pytest.raises(FleetError):
            await published(client, "t4-4x-pcie", "tpu-v7")
        assert client.objects == {}

    asyncio.run(test())
