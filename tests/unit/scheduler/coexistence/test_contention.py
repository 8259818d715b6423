"""Two claims that were given what only one of them can have."""

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


def _give(inventory: Inventory, claim: str, device: str, **more: Any) -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": device, **more}
    inventory.allocate(ObjectKey("ns", claim), to_value({"devices": {"results": [result]}}, AllocationResult))


def _found(inventory: Inventory, claim: str) -> list[Contest]:
    return contests(inventory, ObjectKey("ns", claim), "a")


def _contest(device: str, holder: str, *, whole: bool) -> Contest:
    return Contest(DeviceID("d", "p", device), ObjectKey("ns", holder), whole)


def test_a_device_that_two_claims_hold() -> None:
    inventory = _inventory({"name": "x"}, {"name": "y"})
    _give(inventory, "mine", "x")
    _give(inventory, "other", "y")
    assert _found(inventory, "mine") == []
    _give(inventory, "theirs", "x")
    assert _found(inventory, "mine") == [_contest("x", "theirs", whole=True)]
    assert _found(inventory, "theirs") == [_contest("x", "mine", whole=True)]
    assert _found(inventory, "other") == []


def test_who_looks_on_with_admin_access_contests_nothing() -> None:
    inventory = _inventory({"name": "x"})
    _give(inventory, "mine", "x")
    _give(inventory, "admin", "x", adminAccess=True)
    assert _found(inventory, "mine") == _found(inventory, "admin") == []


def _share(inventory: Inventory, claim: str, number: int, memory: str) -> None:
    id = f"00000000-0000-4000-8000-{number:012}"
    _give(inventory, claim, "x", shareID=id, consumedCapacity={"memory": memory})


def test_shares_are_contested_once_they_are_more_than_the_device_has() -> None:
    device = {"name": "x", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "10Gi"}}}
    inventory = _inventory(device)
    _share(inventory, "mine", 1, "6Gi")
    _share(inventory, "small", 2, "4Gi")
    assert _found(inventory, "mine") == []
    _share(inventory, "theirs", 3, "4Gi")
    assert set(_found(inventory, "mine")) == {_contest("x", "small", whole=False), _contest("x", "theirs", whole=False)}


def test_a_share_of_a_device_that_another_holds_whole() -> None:
    inventory = _inventory({"name": "x", "allowMultipleAllocations": True})
    _share(inventory, "mine", 1, "1Gi")
    _give(inventory, "theirs", "x")
    assert _found(inventory, "mine") == [_contest("x", "theirs", whole=True)]
    assert _found(inventory, "theirs") == [_contest("x", "mine", whole=True)]


def test_partitions_that_draw_more_than_there_is() -> None:
    def partition(name: str, amount: str) -> Tree:
        uses = [{"counterSet": "gpu", "counters": {"memory": {"value": amount}}}]
        return {"name": name, "consumesCounters": uses}

    devices = [partition("half", "5Gi"), partition("other-half", "5Gi"), partition("whole", "10Gi")]
    inventory = _inventory(*devices, counters={"memory": {"value": "10Gi"}})
    _give(inventory, "mine", "half")
    _give(inventory, "neighbour", "other-half")
    assert _found(inventory, "mine") == []
    _give(inventory, "theirs", "whole")
    assert _contest("half", "theirs", whole=False) in _found(inventory, "mine")
    assert _contest("whole", "mine", whole=False) in _found(inventory, "theirs")
