"""ResourceSlices whose equal parts are shared are those that decoding without it gives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree, manifest_of, read_value
from allotment.watched.slices import SliceDecoder
from tests.unit.screens.clusters import WORLDS, fleet, world

MACHINES = ("dgx-a100-40gb:2", "a100-40gb:2/dynamic-mig", "a100-40gb/static-mig=3g.20gb+2g.10gb+1g.5gb:2", "t4-4x-pcie")


def trees() -> list[Tree]:
    return [manifest_of(value) for value in fleet(*MACHINES) if isinstance(value, ResourceSlice)]


def test_slices_of_machines() -> None:
    decoder = SliceDecoder()
    for tree in trees():
        assert decoder.value(tree) == read_value(tree, ResourceSlice)


def test_slices_of_the_corpus() -> None:
    decoder, found = SliceDecoder(), 0
    for name in WORLDS[::5]:
        for (kind, _), tree in world(name).trees.items():
            if kind == "ResourceSlice" and tree["apiVersion"] == "resource.k8s.io/v1":
                assert decoder.value(tree) == read_value(tree, ResourceSlice)
                found += 1
    assert found > 20


def test_equal_devices_share_capacities_counters_and_attributes() -> None:
    decoder = SliceDecoder()
    first, second = (decoder.value(tree) for tree in trees()[:2])
    (one, *_), (other, *_) = first.spec.devices or (), second.spec.devices or ()
    assert one.capacity is other.capacity
    assert one.consumes_counters is other.consumes_counters
    assert one.attributes["productName"] is other.attributes["productName"]


@pytest.mark.parametrize(
    "devices",
    [
        None,
        [],
        {},
        "gpu",
        [None],
        ["gpu"],
        [{"name": 1}],
        [{"capacity": []}],
        [{"capacity": {"memory": {"value": "many"}}}],
    ],
)
def test_a_slice_that_cannot_be_decoded_is_refused_all_the_same(devices: Any) -> None:
    tree = {"metadata": {"name": "s"}, "spec": {"driver": "d", "devices": devices}}
    assert outcome(SliceDecoder().value, tree) == outcome(lambda each: read_value(each, ResourceSlice), tree)


def outcome(decode: Any, tree: Tree) -> object:
    try:
        return decode(tree)
    except msgspec.ValidationError:
        return "refused"
