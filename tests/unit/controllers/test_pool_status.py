"""Requests for pool status are completed once."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.resources import CLAIMS, POOL_STATUS_REQUESTS, SLICES, TAINT_RULES
from allotment.controllers.pool_status import pool_status
from allotment.controllers.pool_views import CompletePool, pool_views
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
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


def test_until_1_36_pools_are_counted_and_incomplete_ones_are_reported() -> None:
    async def scenario() -> None:
        async with world(pool_status(Features("1.36"))) as cluster:
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
        async with world(pool_status(Features("1.36")), speed=36_000) as cluster:
            cluster.put(POOL_STATUS_REQUESTS, {"metadata": {"name": "q"}, "spec": {"driver": DRIVER}})
            await cluster.until(lambda: not cluster.all(POOL_STATUS_REQUESTS))

    idle.run(scenario())


# --- 1.37 -----------------------------------------------------------------------------------------------------------


def new_request() -> Tree:
    metadata = {"name": "q", "creationTimestamp": IdleClock().now()}
    return {"metadata": metadata, "spec": {"driver": DRIVER}}


def claim_of(name: str, *devices: str, **fields: Any) -> Tree:
    results = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": device, **fields} for device in devices]
    return {"metadata": {"name": name}, "status": {"allocation": {"devices": {"results": results}}}}


def test_tainted_devices_are_unavailable_and_a_shared_device_is_allocated_once() -> None:
    async def scenario() -> None:
        async with world(pool_status(Features("1.37"))) as cluster:
            published = slice_of("a", "n1", 5)
            published["spec"]["devices"][0]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
            published["spec"]["devices"][1]["taints"] = [{"key": "k", "effect": "None"}]
            cluster.put(SLICES, published)
            for name, effect, device in (("evict", "NoExecute", "gpu-2"), ("note", "None", "gpu-3")):
                selector = {"driver": DRIVER, "pool": "n1", "device": device}
                spec = {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}
                cluster.put(TAINT_RULES, {"metadata": {"name": name}, "spec": spec})
            cluster.put(CLAIMS, claim_of("c", "gpu-4"))
            cluster.put(CLAIMS, claim_of("d", "gpu-4"))
            cluster.put(CLAIMS, claim_of("monitor", "gpu-3", adminAccess=True))
            cluster.put(POOL_STATUS_REQUESTS, new_request())
            await cluster.until(lambda: cluster.get(POOL_STATUS_REQUESTS, "q").get("status"))
            [pool] = cluster.get(POOL_STATUS_REQUESTS, "q")["status"]["pools"]
            assert {field: pool[field] for field in pool if field.endswith("Devices")} == {
                "totalDevices": 5, "allocatedDevices": 1, "availableDevices": 2, "unavailableDevices": 2,
            }  # fmt: skip

    idle.run(scenario())


def test_from_1_37_an_incomplete_pool_is_awaited() -> None:
    async def scenario() -> None:
        async with world(pool_status(Features("1.37"))) as cluster:
            cluster.put(SLICES, slice_of("a", "n1", 1, of=2))
            cluster.put(POOL_STATUS_REQUESTS, new_request())
            await cluster.settled()
            assert not cluster.get(POOL_STATUS_REQUESTS, "q").get("status")
            cluster.put(SLICES, slice_of("b", "n1", 2, of=2))
            await cluster.until(lambda: cluster.get(POOL_STATUS_REQUESTS, "q").get("status"))
            [pool] = cluster.get(POOL_STATUS_REQUESTS, "q")["status"]["pools"]
            assert pool["totalDevices"] == 3

    idle.run(scenario())


def test_incomplete_pools_beyond_the_limit_are_not_awaited() -> None:
    async def scenario() -> None:
        async with world(pool_status(Features("1.37"))) as cluster:
            cluster.put(SLICES, slice_of("a", "n1", 4))
            cluster.put(SLICES, slice_of("b", "n2", 2, of=2))
            request = new_request()
            cluster.put(POOL_STATUS_REQUESTS, {**request, "spec": {**request["spec"], "limit": 1}})
            await cluster.until(lambda: cluster.get(POOL_STATUS_REQUESTS, "q").get("status"))
            status = cluster.get(POOL_STATUS_REQUESTS, "q")["status"]
            assert (status["poolCount"], [pool["poolName"] for pool in status["pools"]]) == (2, ["n1"])

    idle.run(scenario())


def test_an_unanswered_request_is_deleted_after_a_day() -> None:
    async def scenario() -> None:
        async with world(pool_status(Features("1.37")), speed=864_000) as cluster:
            cluster.put(SLICES, slice_of("a", "n1", 1, of=2))
            cluster.put(POOL_STATUS_REQUESTS, new_request())
            await cluster.until(lambda: not cluster.all(POOL_STATUS_REQUESTS))

    idle.run(scenario())


# --- views ----------------------------------------------------------------------------------------------------------

ATTRIBUTE = f"{DRIVER}/profile"


def partition(name: str, profile: str | None, memory: str, **fields: Any) -> Tree:
    attributes = {"profile": {"string": profile}} if profile else {}
    counters = [{"counterSet": "cs", "counters": {"memory": {"value": memory}}}]
    return {"name": name, "attributes": attributes, "consumesCounters": counters, **fields}


def partitioned(
    *devices: Tree, memory: str = "40Gi", in_use: tuple[str, ...] = (), attribute: str = ATTRIBUTE
) -> CompletePool:
    counters = [{"name": "cs", "counters": {"memory": {"value": memory}}}]
    declared = {"partitionTypeAttribute": attribute} if attribute else {}
    slices: list[Tree] = [{"devices": list(devices), **declared}, {"sharedCounters": counters}]
    return CompletePool(DRIVER, "n1", slices, in_use, {})


def summary(pool: CompletePool, default: str = "") -> list[tuple[str, int, int]]:
    entries = pool_views(pool, default)["partitionSummary"]
    assert {entry["attribute"] for entry in entries} == {ATTRIBUTE}
    return [(entry["type"], entry["total"], entry["allocatable"]) for entry in entries]


HALVES = [partition(f"m{n}", "Half", "20Gi") for n in range(3)]
FULL = partition("f0", "Full", "40Gi")


def test_partitions_fit_each_type_alone_into_what_is_left() -> None:
    assert summary(partitioned(*HALVES, FULL)) == [("Full", 1, 1), ("Half", 3, 2)]
    assert summary(partitioned(*HALVES, FULL, in_use=("m1",))) == [("Full", 1, 0), ("Half", 3, 1)]
    assert summary(partitioned(*HALVES, FULL, in_use=("f0",))) == [("Full", 1, 0), ("Half", 3, 0)]
    assert summary(partitioned(*HALVES, memory="1Ti", in_use=("m1",))) == [("Half", 3, 2)], "one is in use"


def test_a_default_attribute_is_used_only_if_no_slice_names_one() -> None:
    pool = partitioned(*HALVES, attribute="")
    assert pool_views(pool, "") == {}
    assert summary(pool, ATTRIBUTE) == [("Half", 3, 2)]
    named = partitioned(*HALVES)
    assert summary(named, "other.example.com/kind") == [("Half", 3, 2)]


@pytest.mark.parametrize(
    ("pool", "error"),
    [
        (
            partitioned(*HALVES, partition("x", None, "1Gi")),
            (
                f'PartitionTypeMissing: device "x" in pool {DRIVER}/n1 does not carry partition type attribute'
                f' "{ATTRIBUTE}"'
            ),
        ),
        (
            partitioned(partition("x", '1"', "19Gi"), partition("y", '1"', "20Gi")),
            f'PartitionCostMismatch: devices of partition type "1\\"" in pool {DRIVER}/n1 consume different counters',
        ),
        (
            CompletePool(DRIVER, "n1", [{"devices": [{"name": "x"}], "partitionTypeAttribute": ATTRIBUTE}], (), {}),
            f"PartitionTypeMissing: pool {DRIVER}/n1 declares partitionTypeAttribute but publishes no sharedCounters",
        ),
        (
            partitioned(*(partition(f"d{n}", f"p{n}", "1Gi") for n in range(33))),
            f"PartitionSummaryOverCap: pool {DRIVER}/n1 has 33 partition types, exceeding the maximum of 32",
        ),
    ],
)
def test_a_pool_whose_partitions_cannot_be_counted_has_an_error(pool: CompletePool, error: str) -> None:
    assert pool_views(pool, "") == {"validationError": error}


def test_capacity_of_shareable_devices_is_summed() -> None:
    devices = [
        {"name": f"g{n}", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "80Gi"}}} for n in (0, 1)
    ]
    alone = {"name": "g2", "capacity": {"memory": {"value": "7Gi"}}}
    pool = CompletePool(
        DRIVER, "n1", [{"devices": [*devices, alone]}], {"g0", "g2"}, {"memory": Quantity.parse("10Gi")}
    )
    assert pool_views(pool, "")["shareableSummary"] == {
        "fullyAvailableDevices": 1,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "memory", "total": "160Gi", "consumed": "10Gi", "available": "150Gi"}],
    }
    too_much = pool._replace(consumed={"memory": Quantity.parse("1Ti")})
    assert pool_views(too_much, "")["shareableSummary"]["capacity"][0]["available"] == "0"
