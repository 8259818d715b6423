"""Requests for pool status are completed once."""

from __future__ import annotations

from allotment.cluster.resources import CLAIMS, POOL_STATUS_REQUESTS, SLICES
from allotment.controllers.pool_status import pool_status
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import world

DRIVER = "gpu.example.com"


def slice_of(name: str, pool: str, devices: int, of: int = 1, generation: int = 1) -> Tree:
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER, "nodeName": pool, "devices": [{"name": f"gpu-{n}"} for n in range(devices)],
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": of},
        },
    }  # fmt: skip


def test_pools_are_counted_and_incomplete_ones_are_reported() -> None:
    async def scenario() -> None:
        async with world(pool_status) as cluster:
            cluster.put(SLICES, slice_of("a", "n1", 4, generation=2))
            cluster.put(SLICES, slice_of("old", "n1", 9, generation=1))
            cluster.put(SLICES, slice_of("b", "n2", 2, of=2))
            result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0"}
            cluster.put(
                CLAIMS, {"metadata": {"name": "c"}, "status": {"allocation": {"devices": {"results": [result]}}}}
            )
            cluster.put(POOL_STATUS_REQUESTS, {"metadata": {"name": "q"}, "spec": {"driver": DRIVER}})
            await cluster.until(lambda: cluster.get(POOL_STATUS_REQUESTS, "q").get("status"))
            status = cluster.get(POOL_STATUS_REQUESTS, "q")["status"]
            assert status["poolCount"] == 2
            assert status["pools"] == [
                {
                    "driver": DRIVER, "poolName": "n1", "generation": 2, "nodeName": "n1", "resourceSliceCount": 1,
                    "totalDevices": 4, "allocatedDevices": 1, "availableDevices": 3, "unavailableDevices": 0,
                },
                {
                    "driver": DRIVER, "poolName": "n2", "generation": 1, "nodeName": "n2",
                    "validationError": f"pool {DRIVER}/n2 is incomplete: observed 1/2 slices at generation 1",
                },
            ]  # fmt: skip
            [condition] = status["conditions"]
            assert condition["message"] == "Calculated status for 2 pools (1 incomplete)"

    idle.run(scenario())


def test_a_completed_request_is_deleted_after_an_hour() -> None:
    async def scenario() -> None:
        async with world(pool_status, speed=36_000) as cluster:
            cluster.put(POOL_STATUS_REQUESTS, {"metadata": {"name": "q"}, "spec": {"driver": DRIVER}})
            await cluster.until(lambda: not cluster.all(POOL_STATUS_REQUESTS))

    idle.run(scenario())
