"""Pools: generations, completeness, validity, order, and errors that affect every node."""

from __future__ import annotations

import pytest
from msgspec import structs

from allotment.engine import AbortCause, Aborted, Allocated, Inventory, Outcome, Unfit, allocate
from allotment.engine.cluster.pools import PoolStatus
from allotment.model.features import Features
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import ResourceSlice
from tests.unit.engine.objects import claim, device, devices_of, inventory, request, slice_of


def answer(*slices: ResourceSlice, count: int = 1, nodes: tuple[str, ...] = ("n1", "n2")) -> Outcome:
    return allocate(inventory(*slices, nodes=nodes), "n1", [claim(request(count))])


def names(outcome: Outcome) -> list[str]:
    assert isinstance(outcome, Allocated), outcome
    return devices_of(outcome.results)[0]


def test_devices_are_taken_in_published_order() -> None:
    assert names(answer(slice_of(device("c"), device("a"), device("b")), count=2)) == ["c", "a"]


def test_slices_are_taken_by_name() -> None:
    late = slice_of(device("z0"), name="z", count=2)
    early = slice_of(device("y0"), name="y", count=2)
    assert names(answer(late, early)) == ["y0"]


def test_pools_are_taken_by_driver_then_name() -> None:
    slices = (slice_of(device("b"), pool="b", driver="b.example.com"), slice_of(device("z"), pool="z", driver="a.com"))
    assert names(answer(*slices)) == ["z"]


def test_pools_with_binding_conditions_are_last() -> None:
    slow = slice_of(device("slow", binding_conditions=("ready",)), pool="a", name="a")
    assert names(answer(slow, slice_of(device("fast"), pool="z", name="z"), count=2)) == ["fast", "slow"]


def test_the_highest_generation_on_the_node_counts() -> None:
    assert names(answer(slice_of(device("old"), name="a"), slice_of(device("new"), name="b", generation=2))) == ["new"]


def test_a_pool_that_is_whole_on_the_node_is_not_checked_against_newer_slices_elsewhere() -> None:
    newer = slice_of(device("new"), node="n2", pool="p", generation=2, name="b")
    assert names(answer(slice_of(device("old"), pool="p", name="a"), newer)) == ["old"]


def test_a_pool_that_is_not_whole_on_the_node_is_obsolete_if_newer_slices_exist() -> None:
    half = slice_of(device("old"), pool="p", name="a", count=2)
    other_half = slice_of(device("other"), node="n2", pool="p", name="b", count=2)
    assert names(answer(half, other_half)) == ["old"]
    newer = slice_of(device("new"), node="n2", pool="p", name="c", generation=2)
    assert isinstance(answer(half, newer), Unfit)


def test_an_incomplete_pool_has_no_devices_and_blocks_mode_all() -> None:
    half = slice_of(device("a"), count=2)
    assert isinstance(answer(half), Unfit)
    stopped = answer(half, count=0)
    assert isinstance(stopped, Aborted)
    assert stopped.fatal
    assert stopped.cause is AbortCause.POOL_INCOMPLETE
    assert stopped.text == (
        "claim default/c, request r: asks for all devices, but resource pool "
        "gpu.example.com/n1 is currently being updated"
    )


def test_an_invalid_pool_is_an_error_of_the_node_unless_others_serve() -> None:
    twice = (slice_of(device("a"), name="a", count=2), slice_of(device("a"), name="b", count=2))
    alone = answer(*twice)
    assert isinstance(alone, Aborted)
    assert not alone.fatal
    assert alone.text == "invalid resource pools were encountered"
    assert names(answer(*twice, slice_of(device("good"), pool="p", name="c"))) == ["good"]
    stopped = answer(*twice, count=0)
    assert isinstance(stopped, Aborted)
    assert stopped.fatal
    assert stopped.text.endswith("asks for all devices, but resource pool gpu.example.com/n1 is currently invalid")


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ((slice_of(device("a"), device("a")),), "duplicate device name a"),
        ((slice_of(device("a", draws={"set": "1"})),), "counter set set not found"),
        (
            (slice_of(name="x", counters={"set": "1"}, count=2), slice_of(name="y", counters={"set": "1"}, count=2)),
            "duplicate counter set name set",
        ),
    ],
)
def test_reasons_of_invalid_pools(slices: tuple[ResourceSlice, ...], reason: str) -> None:
    (pool,) = inventory(*slices).view("n1").pools
    assert (pool.status, pool.reason) == (PoolStatus.INVALID, reason)


def test_the_same_name_in_slices_of_different_nodes_is_no_duplicate() -> None:
    own_slice = slice_of(device("a"), pool="p", name="x", count=2)
    other_slice = slice_of(device("a"), node="n2", pool="p", name="y", count=2)
    assert names(answer(own_slice, other_slice)) == ["a"]


BAD_SELECTOR = NodeSelector(
    node_selector_terms=(
        NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="Is", values=("a",)),)),
    )
)


def test_an_invalid_selector_of_a_slice_is_fatal() -> None:
    stopped = answer(slice_of(device("good")), slice_of(device("a"), selector=BAD_SELECTOR, pool="p", name="wide"))
    assert isinstance(stopped, Aborted)
    assert stopped.fatal
    assert stopped.text.startswith(
        "gather pool information: failed to perform node selection for slice wide: failed to parse node selector"
    )


@pytest.mark.parametrize("bad_first", [True, False])
def test_an_invalid_selector_of_a_device_is_fatal(bad_first: bool) -> None:
    """Also after a device that already makes the slice relevant for the node."""
    good = structs.replace(device("good"), all_nodes=True)
    bad = structs.replace(device("bad"), node_selector=BAD_SELECTOR)
    devices = (bad, good) if bad_first else (good, bad)
    stopped = answer(slice_of(*devices, per_device=True, pool="p", name="wide"))
    assert isinstance(stopped, Aborted)
    assert stopped.fatal
    assert stopped.cause is AbortCause.NODE_SELECTION
    assert stopped.text.startswith(
        "gather pool information: failed to perform node selection for device bad in slice wide: failed to parse"
    )


def test_an_incomplete_pool_with_counters_on_another_node_blocks_mode_all_until_1_36() -> None:
    def all_on_n1(kube: str) -> Outcome:
        own_slice = slice_of(device("a"), name="mine")
        other_slice = slice_of(node="n2", name="theirs", counters={"set": "1"}, count=2)
        made: Inventory = inventory(own_slice, other_slice, nodes=("n1", "n2"), features=Features(kube))
        return allocate(made, "n1", [claim(request(0))])

    stopped = all_on_n1("1.36")
    assert isinstance(stopped, Aborted)
    assert stopped.text.endswith("resource pool gpu.example.com/n2 is currently being updated")
    assert isinstance(all_on_n1("1.37"), Allocated)
