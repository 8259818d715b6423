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


async def create_claim(world: DriverNode, *devices: str) -> None:
    """Create a claim of another user."""
    client = world.cluster.client
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
    results = [{"request": "gpu", "driver": world.driver.name, "pool": NODE, "device": name} for name in devices]
    status = {"allocation": {"devices": {"results": results}}}
    await client.update(CLAIMS, {**tree, "status": status}, subresource="status")


def given(made: DriverSession, count: int) -> Any:
    return made.create_claims(*[made.spec()] * count)


def test_only_free_devices_are_used() -> None:
    async def main() -> None:
        world = DriverNode()
        async with open_session(world) as made:
            await create_claim(world, "gpu-0", "gpu-2")
            chosen = [part.device for each in await given(made, 2) for part in each.parts]
            assert chosen == ["gpu-1", "gpu-3"]
            with pytest.raises(CheckSkipped, match="needs 1 free device: n1 has none"):
                await given(made, 1)

    asyncio.run(main())


class RacingScheduler:
    """A client after whose listing a scheduler allocates a device; ``times``: how often."""

    def __init__(self, world: DriverNode, times: int) -> None:
        self._client = world.cluster.client
        self._driver = world.driver.name
        self._left = times
        self._looked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, resource: Any, namespace: str = "", **more: Any) -> Listing:
        listing = await self._client.list(resource, namespace, **more)
        if resource != CLAIMS or namespace:
            return listing
        self._looked += 1
        if self._looked % 2 or not self._left:
            return listing
        self._left -= 1
        result = {"driver": self._driver, "pool": NODE, "device": "gpu-0"}
        theirs: Tree = {
            "metadata": {"namespace": "shop", "name": "c"}, "status": {"allocation": {"devices": {"results": [result]}}}
        }  # fmt: skip
        return Listing([*listing.items, theirs], listing.revision)


def test_a_device_that_is_allocated_concurrently_is_not_used() -> None:
    async def main() -> None:
        world = DriverNode()
        world.client = RacingScheduler(world, times=1)
        async with open_session(world) as made:
            (one,) = await given(made, 1)
            kept = [tree["metadata"]["uid"] for tree in (await world.cluster.client.list(CLAIMS)).items]
            assert kept == [one.ref.uid]

    asyncio.run(main())


def test_the_check_is_skipped_after_repeated_conflicts() -> None:
    async def main() -> None:
        world = DriverNode()
        world.client = RacingScheduler(world, times=9)
        async with open_session(world) as made:
            with pytest.raises(CheckSkipped, match="device n1/gpu-0 was given to another claim"):
                await given(made, 1)

    asyncio.run(main())


def test_claims_are_reserved_for_a_pod_that_never_runs() -> None:
    async def main() -> None:
        world = DriverNode()
        async with open_session(world) as made:
            (one,) = await given(made, 1)
            (pod,) = (await world.cluster.client.list(PODS)).items
            tree = await world.cluster.client.get(CLAIMS, one.ref.name, one.ref.namespace)
            assert [user["uid"] for user in tree["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
            assert pod["spec"]["schedulingGates"]
            assert not pod["spec"].get("nodeName")

    asyncio.run(main())


def test_devices_of_a_class_can_be_requested() -> None:
    async def main() -> None:
        world = DriverNode()
        expression = 'device.attributes["gpu.example.com"].index == 2'
        await world.cluster.client.create(
            DEVICE_CLASSES,
            {
                "apiVersion": DEVICE_CLASSES.api_version, "kind": DEVICE_CLASSES.kind, "metadata": {"name": "third"},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            },
        )  # fmt: skip
        async with open_session(world, class_name="third") as made:
            (one,) = await given(made, 1)
            assert [part.device for part in one.parts] == ["gpu-2"]
            with pytest.raises(CheckSkipped, match="needs 1 free device of class third: n1 has none"):
                await given(made, 1)

    asyncio.run(main())
