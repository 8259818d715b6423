"""Two claims with the same exclusive device, share or counter."""

from __future__ import annotations

from typing import Any

from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import ObjectKey
from allotment.model.resource import AllocationResult, ResourceSlice
from allotment.model.trees import Tree, to_value
from allotment.scheduler.coexistence.contention import Contest, contests
from tests.unit.scheduler.world import FEATURES


def _inventory(*devices: Tree, counters: Tree | None = None) -> Inventory:
    inventory = Inventory(FEATURES)
    inventory.put_node("a", {})
    slices = [{"devices": list(devices)}]
    if counters:
        slices.append({"sharedCounters": [{"name": "gpu", "counters": counters}]})
    for number, more in enumerate(slices):
        pool = {"name": "p", "generation": 1, "resourceSliceCount": len(slices)}
        spec = {"driver": "d", "nodeName": "a", "pool": pool, **more}
        inventory.put_slice(to_value({"metadata": {"name": f"s{number}"}, "spec": spec}, ResourceSlice))
    return inventory


def _allocate(inventory: Inventory, claim: str, device: str, **more: Any) -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": device, **more}
    inventory.allocate(ObjectKey("ns", claim), to_value({"devices": {"results": [result]}}, AllocationResult))


def _contests(inventory: Inventory, claim: str) -> list[Contest]:
    return contests(inventory, ObjectKey("ns", claim), "a")


def _contest(device: str, holder: str, *, whole: bool) -> Contest:
    return Contest(DeviceID("d", "p", device), ObjectKey("ns", holder), whole)


def test_a_device_with_two_exclusive_holders_is_contested() -> None:
    inventory = _inventory({"name": "x"}, {"name": "y"})
    _allocate(inventory, "mine", "x")
    _allocate(inventory, "other", "y")
    assert _contests(inventory, "mine") == []
    _allocate(inventory, "theirs", "x")
    assert _contests(inventory, "mine") == [_contest("x", "theirs", whole=True)]
    assert _contests(inventory, "theirs") == [_contest("x", "mine", whole=True)]
    assert _contests(inventory, "other") == []


def test_admin_access_contests_nothing() -> None:
    inventory = _inventory({"name": "x"})
    _allocate(inventory, "mine", "x")
    _allocate(inventory, "admin", "x", adminAccess=True)
    assert _contests(inventory, "mine") == _contests(inventory, "admin") == []


def _share(inventory: Inventory, claim: str, number: int, memory: str) -> None:
    id = f"00000000-0000-4000-8000-{number:012}"
    _allocate(inventory, claim, "x", shareID=id, consumedCapacity={"memory": memory})


def test_shares_are_contested_once_they_exceed_the_capacity() -> None:
    device = {"name": "x", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    inventory = _inventory(device)
    _share(inventory, "mine", 1, "6Gi")
    _share(inventory, "small", 2, "4Gi")
    assert _contests(inventory, "mine") == []
    _share(inventory, "theirs", 3, "4Gi")
    assert set(_contests(inventory, "mine")) == {
        _contest("x", "small", whole=False),
        _contest("x", "theirs", whole=False),
    }


def test_a_share_of_an_exclusively_held_device_is_contested() -> None:
    inventory = _inventory({"name": "x", "allowMultipleAllocations": True})
    _share(inventory, "mine", 1, "1Gi")
    _allocate(inventory, "theirs", "x")
    assert _contests(inventory, "mine") == [_contest("x", "theirs", whole=True)]
    assert _contests(inventory, "theirs") == [_contest("x", "mine", whole=True)]


def test_partitions_that_overdraw_a_counter_are_contested() -> None:
    def partition(name: str, amount: str) -> Tree:
        uses = [{"counterSet": "gpu", "counters": {"memory": {"value": amount}}}]
        return {"name": name, "consumesCounters": uses}

    devices = [partition("half", "5Gi"), partition("other-half", "5Gi"), partition("whole", "10Gi")]
    inventory = _inventory(*devices, counters={"memory": {"value": "10Gi"}})
    _allocate(inventory, "mine", "half")
    _allocate(inventory, "neighbour", "other-half")
    assert _contests(inventory, "mine") == []
    _allocate(inventory, "theirs", "whole")
    assert _contest("half", "theirs", whole=False) in _contests(inventory, "mine")
    assert _contest("whole", "mine", whole=False) in _contests(inventory, "theirs")
