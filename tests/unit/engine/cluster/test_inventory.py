"""The inventory: incremental updates equal a rebuilt inventory, and only changed nodes are evaluated again."""

from __future__ import annotations

import pytest

from allotment.engine import Allocated, Allocator, DeviceID, NotPlaced, Placed, Unfit
from allotment.engine.cluster.journal import ChangeJournal
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.resource import DeviceTaint, DeviceTaintRule, DeviceTaintRuleSpec, DeviceTaintSelector
from tests.unit.engine.objects import DRIVER, claim, class_of, device, holding, inventory, key, request, slice_of

OTHER = ObjectKey("default", "other")
ONE = [claim(request(1))]


def test_a_claim_is_allocated_once() -> None:
    made = inventory(slice_of(device("a")))
    made.allocate(OTHER, holding("a"))
    with pytest.raises(ValueError, match="default/other is already allocated"):
        made.allocate(OTHER, holding("a"))
    made.free(OTHER)
    made.free(OTHER)
    assert made.usage.exclusive == {}


def test_holders_are_known_by_device() -> None:
    made = inventory(slice_of(device("a"), device("b", memory="10Gi", shareable=True)))
    made.allocate(OTHER, holding("a"))
    made.allocate(ObjectKey("default", "x"), holding("b", share_id="1", memory="3Gi"))
    made.allocate(ObjectKey("default", "y"), holding("b", share_id="2", memory="4Gi"))
    a, b = DeviceID(DRIVER, "n1", "a"), DeviceID(DRIVER, "n1", "b")
    assert made.usage.holders(a) == (OTHER,)
    assert [str(holder) for holder in made.usage.holders(b)] == ["default/x", "default/y"]
    assert made.usage.remaining(b, {"memory": 10 * 2**30 * 10**9}) == {"memory": 3 * 2**30 * 10**9}
    made.free(ObjectKey("default", "x"))
    assert made.usage.remaining(b, {"memory": 10 * 2**30 * 10**9}) == {"memory": 6 * 2**30 * 10**9}


def test_a_device_of_two_claims_is_free_after_both_are_deallocated() -> None:
    # The state of a cluster may be inconsistent; the device must not be considered free too early.
    made = inventory(slice_of(device("a")))
    allocator = Allocator(made)
    made.allocate(OTHER, holding("a"))
    made.allocate(ObjectKey("default", "twin"), holding("a"))
    made.free(OTHER)
    assert isinstance(allocator.allocate("n1", ONE), Unfit)
    made.free(ObjectKey("default", "twin"))
    assert isinstance(allocator.allocate("n1", ONE), Allocated)


def test_slices_can_be_added_changed_and_removed() -> None:
    made = inventory()
    allocator = Allocator(made)
    assert isinstance(allocator.place(ONE), NotPlaced)
    made.put_slice(slice_of(device("a")))
    assert isinstance(allocator.place(ONE), Placed)
    made.put_slice(slice_of(device("b")))
    placed = allocator.place(ONE)
    assert isinstance(placed, Placed)
    assert placed.results[0].devices.results[0].device == "b"
    made.remove_slice(f"{DRIVER}-n1")
    made.remove_slice(f"{DRIVER}-n1")
    assert isinstance(allocator.place(ONE), NotPlaced)


def test_a_slice_may_move_to_another_pool_and_node() -> None:
    made = inventory(slice_of(device("a"), name="s"), nodes=("n1", "n2"))
    allocator = Allocator(made)
    assert isinstance(allocator.allocate("n1", ONE), Allocated)
    made.put_slice(slice_of(device("a"), node="n2", name="s"))
    assert isinstance(allocator.allocate("n1", ONE), Unfit)
    assert isinstance(allocator.allocate("n2", ONE), Allocated)


def test_nodes_can_be_added_changed_and_removed() -> None:
    made = inventory(slice_of(device("a"), node="n2"))
    allocator = Allocator(made)
    assert allocator.place(ONE) == NotPlaced(1)
    made.put_node("n2", {})
    placed = allocator.place(ONE)
    assert isinstance(placed, Placed)
    assert (placed.node, placed.index) == ("n2", 1)
    made.remove_node("n2")
    made.remove_node("n2")
    assert allocator.place(ONE) == NotPlaced(1)
    with pytest.raises(KeyError):
        allocator.allocate("n2", ONE)


def test_classes_change_what_fits() -> None:
    made = inventory(slice_of(device("a")))
    allocator = Allocator(made)
    assert isinstance(allocator.place(ONE), Placed)
    made.put_class(class_of("false"))
    assert isinstance(allocator.place(ONE), NotPlaced)
    made.remove_class("gpu")
    missing = allocator.allocate("n1", ONE)
    assert getattr(missing, "text", "") == (
        'claim default/c, request r: could not retrieve device class gpu: deviceclass.resource.k8s.io "gpu" not found'
    )


def rule(name: str, device_name: str | None, **selector: str) -> DeviceTaintRule:
    return DeviceTaintRule(
        metadata=ObjectMeta(name=name),
        spec=DeviceTaintRuleSpec(
            device_selector=DeviceTaintSelector(device=device_name, **selector),
            taint=DeviceTaint(key="broken", effect="NoSchedule"),
        ),
    )


def test_taint_rules_taint_what_they_select_if_their_gate_is_on() -> None:
    for on in (True, False):
        features = Features("1.36", {"DRADeviceTaintRules": on})
        made = inventory(slice_of(device("a"), device("b")), features=features)
        allocator = Allocator(made)
        made.put_taint_rule(rule("x", "a"))
        made.put_taint_rule(rule("y", None, driver="other.example.com"))
        assert isinstance(allocator.allocate("n1", [claim(request(2))]), Unfit if on else Allocated)
        assert isinstance(allocator.allocate("n1", ONE), Allocated)
        made.remove_taint_rule("x")
        assert isinstance(allocator.allocate("n1", [claim(request(2))]), Allocated)


def test_a_pool_that_many_nodes_share_is_one_pool() -> None:
    nodes = tuple(f"n{i}" for i in range(5))
    made = inventory(slice_of(device("a"), device("b"), all_nodes=True, pool="net"), nodes=nodes)
    allocator = Allocator(made)
    taken = []
    for name in ("x", "y"):
        placed = allocator.place([claim(request(1), name=name)], start=3)
        assert isinstance(placed, Placed)
        made.allocate(ObjectKey("default", name), placed.results[0])
        taken.append((placed.node, placed.results[0].devices.results[0].device))
    assert taken == [("n3", "a"), ("n3", "b")]
    assert all(isinstance(allocator.allocate(node, ONE), Unfit) for node in nodes)
    made.free(ObjectKey("default", "x"))
    assert all(isinstance(allocator.allocate(node, ONE), Allocated) for node in nodes)


def test_counters_count_devices_of_the_pool_on_other_nodes() -> None:
    made = inventory(
        slice_of(name="counters", node="n1", pool="p", counters={"set": "40"}, count=3),
        slice_of(device("a", draws={"set": "30"}), name="x", pool="p", count=3),
        slice_of(device("b", draws={"set": "30"}), node="n2", name="y", pool="p", count=3),
        nodes=("n1", "n2"),
    )
    allocator = Allocator(made)
    assert isinstance(allocator.allocate("n1", ONE), Allocated)
    made.allocate(OTHER, holding("b", pool="p"))
    assert isinstance(allocator.allocate("n1", ONE), Unfit)
    made.free(OTHER)
    assert isinstance(allocator.allocate("n1", ONE), Allocated)


def test_placement_starts_at_an_index_and_wraps_around() -> None:
    nodes = tuple(f"n{i}" for i in range(4))
    made = inventory(*(slice_of(device("a"), node=node) for node in nodes), nodes=nodes)
    allocator = Allocator(made)
    order = []
    for i, start in enumerate((2, 3, 4, 2, 2)):
        placed = allocator.place(ONE, start=start)
        if isinstance(placed, Placed):
            made.allocate(ObjectKey("", str(i)), placed.results[0])
            order.append(placed.node)
    assert order == ["n2", "n3", "n0", "n1"]
    assert allocator.place(ONE) == NotPlaced(4)


def test_placement_is_restricted_to_the_given_nodes() -> None:
    nodes = tuple(f"n{i}" for i in range(4))
    made = inventory(*(slice_of(device("a"), node=node) for node in nodes), nodes=nodes)
    allocator = Allocator(made)
    placed = allocator.place(ONE, start=2, among=made.node_mask(["n1", "gone"]))
    assert isinstance(placed, Placed)
    assert placed.node == "n1"
    made.allocate(key(ONE[0]), placed.results[0])
    assert isinstance(allocator.place(ONE, among=made.node_mask(["n1", "gone"])), NotPlaced)


def test_a_journal_returns_the_changes_since_a_position_or_none() -> None:
    journal = ChangeJournal()
    start = journal.end
    journal.append(7, 1)
    assert journal.since(start) == [7]
    assert journal.since(journal.end) == []
    journal.mark_all_changed()
    assert journal.since(start) is None
    now = journal.end
    for _ in range(10_000):
        journal.append(1, 1)
    assert journal.since(now) is None
    assert journal.since(journal.end - 1) == [1]
