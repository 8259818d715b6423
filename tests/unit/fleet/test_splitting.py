"""Offerings split into slices: every device and counter set once, in order, within the API limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.fleet.errors import FleetError
from allotment.fleet.splitting import SliceContent, split
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import Counter, CounterSet, Device, DeviceAttribute, DeviceCounterConsumption, DeviceTaint

#: 1.34 has counters next to devices, later releases have them in slices of their own.
TOGETHER, APART = Features("1.34"), Features("1.35")
ONE = {"c": Counter(value=Quantity.of_int(1))}
TAINT = DeviceTaint(key="k", effect="NoSchedule")


def sets(count: int) -> list[CounterSet]:
    return [CounterSet(f"s{n}", ONE) for n in range(count)]


def of_sets(name: str, *counters: int) -> Device:
    taken = tuple(DeviceCounterConsumption(counter_set=f"s{n}", counters=ONE) for n in counters)
    return Device(name=name, consumes_counters=taken)


@pytest.mark.parametrize(
    ("odd", "sizes"),
    [
        (Device(name="plain"), [128, 2]),
        (Device(name="tainted", taints=(TAINT,)), [64, 64, 2]),
        (Device(name="list", attributes={"a": DeviceAttribute(strings=("x",))}), [64, 64, 2]),
        (of_sets("counting", 0), [64, 64, 2]),
    ],
)
def test_a_device_with_advanced_fields_halves_the_slice_size_of_its_group(odd: Device, sizes: list[int]) -> None:
    plain = [Device(name=f"d{n}") for n in range(129)]
    parts = split([[*plain, odd], plain], (), APART)
    assert [len(part.devices) for part in parts] == [*sizes, 128, 1]


def test_without_devices_there_is_one_empty_slice() -> None:
    assert split([], (), APART) == (SliceContent(),)
    assert split([[]], (), TOGETHER) == (SliceContent(),)


@given(st.lists(st.integers(0, 200), max_size=5), st.integers(0, 20), st.sampled_from((TOGETHER, APART)))
def test_all_devices_and_counters_are_published_once_and_in_order(
    sizes: list[int], counters: int, features: Features
) -> None:
    groups = [[Device(name=f"{g}-{n}") for n in range(size)] for g, size in enumerate(sizes)]
    parts = split(groups, sets(counters), features)
    assert [device for part in parts for device in part.devices] == [device for group in groups for device in group]
    assert [counter_set for part in parts for counter_set in part.counters] == sets(counters)
    assert all(len(part.devices) <= 128 and len(part.counters) <= 8 for part in parts)
    assert all(not (part.devices and part.counters) for part in parts)


def test_counters_have_own_slices_since_1_35_and_share_slices_with_devices_in_1_34() -> None:
    groups = [[of_sets("a", 0)], [of_sets("b", 1)]]
    first, second = sets(2)
    apart = split(groups, (first, second), APART)
    assert apart == (
        SliceContent(counters=(first, second)),
        SliceContent((groups[0][0],)),
        SliceContent((groups[1][0],)),
    )
    together = split(groups, (first, second), TOGETHER)
    assert together == (SliceContent((groups[0][0],), (first,)), SliceContent((groups[1][0],), (second,)))


@pytest.mark.parametrize(
    "groups",
    [[[of_sets("a", 0)], [of_sets("b", 0)]], [[of_sets(f"d{n}", 0) for n in range(65)]]],
    ids=["two groups", "a large group"],
)
def test_1_34_rejects_counters_shared_by_two_slices(groups: list[list[Device]]) -> None:
    with pytest.raises(FleetError, match="'s0' is needed in several"):
        split(groups, sets(1), TOGETHER)
