"""``prefer_last``: allocation of the last devices of a node if the result is equally good."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Allocated
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, to_value


def _node(*models: str) -> Allocator:
    inventory = Inventory(Features(kube="1.36"))
    inventory.put_node("a", {})
    inventory.put_class(to_value({"metadata": {"name": "gpu"}, "spec": {}}, DeviceClass))
    devices = [{"name": f"gpu-{n}", "attributes": {"model": {"string": model}}} for n, model in enumerate(models)]
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "a", "pool": pool, "devices": devices}
    inventory.put_slice(to_value({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    return Allocator(inventory)


def _claim(name: str = "c", **request: Any) -> ResourceClaim:
    if not request.get("firstAvailable"):
        request = {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **request}}
    spec = {"devices": {"requests": [{"name": "r", **request}]}}
    return to_value({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}, ResourceClaim)


def _taken(allocator: Allocator, *claims: ResourceClaim, from_behind: bool = True) -> list[str]:
    outcome = allocator.allocate("a", claims, prefer_last=from_behind)
    assert isinstance(outcome, Allocated)
    return [result.device for allocation in outcome.results for result in allocation.devices.results]


def _of_model(model: str) -> list[Tree]:
    return [{"cel": {"expression": f'device.attributes["d"].model == "{model}"'}}]


@pytest.mark.parametrize(("count", "taken"), [(1, ["gpu-3"]), (2, ["gpu-2", "gpu-3"])])
def test_the_last_devices_are_allocated(count: int, taken: list[str]) -> None:
    assert _taken(_node("x", "x", "x", "x"), _claim(count=count)) == taken


def test_only_matching_devices_are_allocated() -> None:
    assert _taken(_node("x", "x", "y", "y"), _claim(selectors=_of_model("x"))) == ["gpu-1"]


def test_mode_all_allocates_all_devices() -> None:
    assert _taken(_node("x", "x"), _claim(allocationMode="All", count=0)) == ["gpu-0", "gpu-1"]


def test_a_preferred_alternative_takes_precedence() -> None:
    def option(model: str) -> Tree:
        wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        return {"name": model, **wanted, "selectors": _of_model(model)}

    claim = _claim(firstAvailable=[option("x"), option("y")])
    assert _taken(_node("x", "y", "y"), claim) == ["gpu-0"]


@given(st.integers(1, 8), st.integers(0, 4), st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_prefer_last_does_not_change_whether_claims_fit(size: int, held: int, counts: list[int]) -> None:
    allocator = _node(*["x"] * size)
    for number in range(min(held, size)):
        outcome = allocator.allocate("a", [_claim("held")], prefer_last=bool(number % 2))
        assert isinstance(outcome, Allocated)
        allocator.inventory.allocate(ObjectKey("ns", f"held-{number}"), outcome.results[0])
    claims = [_claim(f"c{number}", count=count) for number, count in enumerate(counts)]
    outcomes = [allocator.allocate("a", claims, prefer_last=behind) for behind in (False, True)]
    assert isinstance(outcomes[0], Allocated) == isinstance(outcomes[1], Allocated)
    if isinstance(outcomes[1], Allocated):
        taken = [result.device for allocation in outcomes[1].results for result in allocation.devices.results]
        assert len(taken) == len(set(taken)) == sum(counts)
        in_use = {device.device for device in allocator.inventory.usage.exclusive}
        assert in_use.isdisjoint(taken)
