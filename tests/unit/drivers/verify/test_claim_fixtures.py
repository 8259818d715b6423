"""The verifier on a node in use: it does not touch devices of other claims."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import Listing
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NAMESPACES, PODS
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckSkipped
from allotment.model.trees import Tree
from tests.unit.drivers.verify.driver_node import NODE, DriverNode, open_session


async def create_other_claim(node: DriverNode, *devices: str) -> None:
    """Create a claim of another user."""
    client = node.cluster.client
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    request = {"name": "gpu", "exactly": {"deviceClassName": "any", "count": len(devices)}}
    tree = await client.create(
        CLAIMS,
        {
            "apiVersion": CLAIMS.api_version, "kind": CLAIMS.kind, "metadata": {"name": "c", "namespace": "shop"},
            "spec": {"devices": {"requests": [request]}},
        },
        "shop",
    )  # fmt: skip
    results = [{"request": "gpu", "driver": node.driver.name, "pool": NODE, "device": name} for name in devices]
    status = {"allocation": {"devices": {"results": results}}}
    await client.update(CLAIMS, {**tree, "status": status}, subresource="status")


def create(session: DriverSession, count: int) -> Any:
    return session.create_claims(*[session.spec()] * count)


def test_only_free_devices_are_used() -> None:
    async def main() -> None:
        node = DriverNode()
        async with open_session(node) as session:
            await create_other_claim(node, "gpu-0", "gpu-2")
            names = [device.device for claim in await create(session, 2) for device in claim.devices]
            assert names == ["gpu-1", "gpu-3"]
            with pytest.raises(CheckSkipped, match="requires 1 free device; n1 has none"):
                await create(session, 1)

    asyncio.run(main())


class RacingScheduler:
    """A client after whose listing a scheduler allocates a device; ``times``: how often."""

    def __init__(self, node: DriverNode, times: int) -> None:
        self._client = node.cluster.client
        self._driver = node.driver.name
        self._left = times
        self._lists = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, resource: Any, namespace: str = "", **more: Any) -> Listing:
        listing = await self._client.list(resource, namespace, **more)
        if resource != CLAIMS or namespace:
            return listing
        self._lists += 1
        if self._lists % 2 or not self._left:
            return listing
        self._left -= 1
        result = {"driver": self._driver, "pool": NODE, "device": "gpu-0"}
        other_claim: Tree = {
            "metadata": {"namespace": "shop", "name": "c"}, "status": {"allocation": {"devices": {"results": [result]}}}
        }  # fmt: skip
        return Listing([*listing.items, other_claim], listing.revision)


def test_a_device_that_is_allocated_concurrently_is_not_used() -> None:
    async def main() -> None:
        node = DriverNode()
        node.client = RacingScheduler(node, times=1)
        async with open_session(node) as session:
            (claim,) = await create(session, 1)
            uids = [tree["metadata"]["uid"] for tree in (await node.cluster.client.list(CLAIMS)).items]
            assert uids == [claim.ref.uid]

    asyncio.run(main())


def test_the_check_is_skipped_after_repeated_conflicts() -> None:
    async def main() -> None:
        node = DriverNode()
        node.client = RacingScheduler(node, times=9)
        async with open_session(node) as session:
            with pytest.raises(CheckSkipped, match="device n1/gpu-0 was allocated to another claim"):
                await create(session, 1)

    asyncio.run(main())


def test_claims_are_reserved_for_a_pod_that_never_runs() -> None:
    async def main() -> None:
        node = DriverNode()
        async with open_session(node) as session:
            (claim,) = await create(session, 1)
            (pod,) = (await node.cluster.client.list(PODS)).items
            tree = await node.cluster.client.get(CLAIMS, claim.ref.name, claim.ref.namespace)
            assert [user["uid"] for user in tree["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
            assert pod["spec"]["schedulingGates"]
            assert not pod["spec"].get("nodeName")

    asyncio.run(main())


def test_devices_of_a_class_can_be_requested() -> None:
    async def main() -> None:
        node = DriverNode()
        expression = 'device.attributes["gpu.example.com"].index == 2'
        await node.cluster.client.create(
            DEVICE_CLASSES,
            {
                "apiVersion": DEVICE_CLASSES.api_version, "kind": DEVICE_CLASSES.kind, "metadata": {"name": "third"},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            },
        )  # fmt: skip
        async with open_session(node, class_name="third") as session:
            (claim,) = await create(session, 1)
            assert [device.device for device in claim.devices] == ["gpu-2"]
            with pytest.raises(CheckSkipped, match="requires 1 free device of class third; n1 has none"):
                await create(session, 1)

    asyncio.run(main())
