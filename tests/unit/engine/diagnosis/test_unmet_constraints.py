"""The constraint as the last step of the funnel, with the counts for equal and for different values."""

from __future__ import annotations

import pytest

from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.engine.diagnosis.scenario import with_devices
from allotment.engine.refusal import AllocationRefusal
from allotment.model.features import Features
from allotment.model.resource import Device, DeviceAttribute, DeviceConstraint, ResourceClaim, ResourceSlice
from tests.unit.engine.objects import DRIVER, ROOT, claim, device, first_of, inventory, request, slice_of

MODEL = f"{DRIVER}/model"
IS_A = f'device.attributes["{DRIVER}"].model == "a"'
IS_B = f'device.attributes["{DRIVER}"].model == "b"'


def refused(published: ResourceSlice, *claims: ResourceClaim) -> AllocationRefusal:
    return diagnose(inventory(published), claims).headline


def last_steps(found: AllocationRefusal) -> list[tuple[str, int, tuple[str, ...]]]:
    """The last step of each funnel: its text, the number of devices left, and the lost devices."""
    assert all(funnel.steps[-1].step == "constraint" for funnel in found.funnels)
    return [(f.steps[-1].text, f.steps[-1].left, f.steps[-1].lost) for f in found.funnels]


def test_the_largest_group_with_one_value_is_left_and_devices_without_the_attribute_are_lost() -> None:
    devices = [device("d0", root="x"), device("d1", root="y"), device("d2"), device("d3", root="y")]
    found = refused(slice_of(*devices), claim(request(3), match=ROOT))
    assert found.code == "constraint-values-differ"
    assert last_steps(found) == [(f"matchAttribute {ROOT}", 2, ("d0", "d2"))]
    assert found.summary.startswith("3 devices with the same pcieRoot requested; at most 2 share one")
    assert found.notes == (f"d2: no attribute {ROOT}, which the constraint requires",)


def test_a_group_counts_the_devices_usable_by_each_request() -> None:
    """Three devices share root x, but only one of them is useful; of the devices with root y, each request uses one."""
    devices = [device(f"a{i}", model="a", root="x") for i in range(3)]
    devices += [device("b0", model="b", root="y"), device("b1", model="b", root="z"), device("b2", model="b", root="y")]
    found = refused(slice_of(*devices), claim(request(1, IS_A, name="a"), request(2, IS_B, name="b"), match=ROOT))
    assert "3 devices with the same pcieRoot requested; at most 2 share one" in found.summary
    assert [(left, lost) for _, left, lost in last_steps(found)] == [(0, ("a0", "a1", "a2")), (2, ("b1",))]


def test_each_request_counts_its_own_distinct_values() -> None:
    devices = [device("d0", model="a", root="x"), device("d1", model="b", root="x"), device("d2", model="b", root="x")]
    requested = claim(request(1, IS_A, name="l"), request(1, IS_B, name="r"), distinct=ROOT)
    found = refused(slice_of(*devices), requested)
    assert "2 devices with different pcieRoot requested; only 1 value exists" in found.summary
    assert [(left, lost) for _, left, lost in last_steps(found)] == [(1, ()), (1, ("d2",))]


def test_alternatives_are_not_added_up() -> None:
    devices = [device(f"d{i}", model="a", root=str(i)) for i in range(3)]
    found = refused(slice_of(*devices), claim(first_of((3, IS_A), (2, IS_A)), match=ROOT))
    assert "2 devices with the same pcieRoot requested; no two devices share one" in found.summary
    assert len(last_steps(found)) == 2


def test_all_devices_must_share_a_value_in_mode_all() -> None:
    devices = [device("d0", root="x"), device("d1", root="x"), device("d2", root="y")]
    found = refused(slice_of(*devices), claim(request(0), match=ROOT))
    assert "3 devices with the same pcieRoot requested; at most 2 share one" in found.summary


def test_devices_that_share_a_value_may_consume_the_same_counters() -> None:
    devices = [device(f"d{i}", draws={"card": "4Gi"}, root=str(i // 2)) for i in range(4)]
    other = [device(f"e{i}", root=str(2 + i)) for i in range(2)]
    counters = slice_of(name="counters", counters={"card": "4Gi"}, count=2)
    found = diagnose(inventory(slice_of(*devices, *other, count=2), counters), [claim(request(2), match=ROOT)]).headline
    assert found.code == "constraint-values-differ"
    assert "d0, d1 satisfy the constraint, but consume the same counters" in found.summary


def test_a_request_outside_the_constraint_has_no_constraint_step() -> None:
    devices = [device("d0", root="x"), device("d1", root="y"), device("d2", root="z")]
    constraint = DeviceConstraint(match_attribute=ROOT, requests=("l", "r"))
    requested = claim(request(name="free"), request(name="l"), request(name="r"))
    found = refused(slice_of(*devices), with_devices(requested, constraints=(constraint,)))
    assert [funnel.request for funnel in found.funnels] == ["l", "r"]
    assert [left for _, left, _ in last_steps(found)] == [1, 1]


def test_constraints_that_fail_only_together_are_steps_in_order() -> None:
    devices = [device("d0", model="a", root="x"), device("d1", model="b", root="x"), device("d2", model="a", root="y")]
    found = refused(slice_of(*devices), claim(request(2), match=ROOT, distinct=ROOT))
    assert found.code == "constraint-values-differ"
    steps = [(s.text, s.left) for s in found.funnels[0].steps if s.step == "constraint"]
    assert steps == [(f"matchAttribute {ROOT}", 2), (f"distinctAttribute {ROOT}", 1)]
    assert f"matchAttribute {ROOT} must also be satisfied" in found.summary


@pytest.mark.parametrize(("lists", "fits"), [(("x", "y"), True), (("y", "z"), False)])
def test_a_list_matches_if_one_element_does(lists: tuple[str, ...], fits: bool) -> None:
    features = Features("1.36", gates={"DRAListTypeAttributes": True})
    devices = [device("d0", root="x"), Device(name="d1", attributes={ROOT: DeviceAttribute(strings=lists)})]
    found = diagnose(inventory(slice_of(*devices), features=features), [claim(request(2), match=ROOT)])
    assert (found.nodes == ()) == fits
    if not fits:
        assert 'no two devices share one ("x": d0; "y": d1; "z": d1)' in found.headline.summary
