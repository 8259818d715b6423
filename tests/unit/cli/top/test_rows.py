"""The rows of the map and of the pending groups."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from allotment.cli.top.rows import overview
from allotment.screens.device_map import DeviceKind, MapDevice
from tests.unit.cli.top.top_screens import CLUSTER, NodeOfDevices, device, group, map_of, pending_of


def cards(*devices: MapDevice) -> tuple[str, ...]:
    return overview(map_of(NodeOfDevices("node-a", devices=devices)), pending_of()).nodes[0].cards


def test_a_whole_device_is_one_character() -> None:
    assert cards(device("gpu-0"), device("gpu-1", "in-use"), device("gpu-2", "tainted")) == (".", "#", "!")


def test_partitions_are_drawn_to_scale_on_their_card() -> None:
    large = device("gpu-0-mig-3g", "in-use", card="gpu-0", span=(0, 4, 8))
    small = device("gpu-0-mig-1g", "shared", card="gpu-0", span=(4, 1, 8))
    assert cards(large, small) == ("####~...",)


def test_partitions_that_are_only_possible_are_not_drawn() -> None:
    whole = device("gpu-0", "blocked", card="gpu-0", span=(0, 8, 8))
    used = device("gpu-0-a", "in-use", card="gpu-0", span=(0, 2, 8))
    possible = device("gpu-0-b", card="gpu-0", span=(2, 2, 8))
    assert cards(whole, used, possible) == ("##......",)


def test_cards_of_the_same_name_in_two_pools_are_two() -> None:
    one = device("mig-0", "in-use", card="gpu-0", span=(0, 1, 2))
    other = device("mig-1", "in-use", card="gpu-0", span=(1, 1, 2), pool="other")
    assert cards(one, other) == ("#.", ".#")


def test_a_whole_card_without_a_known_span_is_drawn_as_its_state() -> None:
    assert cards(device("a", card="bus-1"), device("b", "in-use", card="bus-1")) == ("#",)


def test_nodes_without_devices_are_left_out() -> None:
    assert overview(map_of(NodeOfDevices("cpu-only")), pending_of()).nodes == ()


def test_devices_of_several_nodes_are_on_any_node() -> None:
    shared = NodeOfDevices("", devices=(device("nic-0"),))
    assert overview(map_of(shared), pending_of()).nodes[0].name == "<any>"


def test_a_device_names_its_claim_pods_and_taints() -> None:
    held = device("gpu-0", "in-use", holders=(0,), taints=("broken=true:NoExecute",))
    (row,) = overview(map_of(NodeOfDevices("node-a", devices=(held,))), pending_of()).nodes
    assert row.devices == (("gpu-0", "A100-SXM4-40GB", "in-use", "ml/train (train-0); broken=true:NoExecute"),)


@pytest.mark.parametrize(
    ("products", "expected"),
    [
        (("A100 1g.5gb", "A100 3g.20gb"), "A100"),
        (("A100 1g.5gb", "A100"), "A100"),
        (("Tesla T4", "A100"), "Tesla T4 +1"),
    ],
)
def test_several_kinds_of_a_node_are_named_in_short(products: tuple[str, str], expected: str) -> None:
    node = NodeOfDevices("node-a", devices=(device("a"), MapDevice("b", 1, "free")))
    kinds = tuple(DeviceKind("gpu.nvidia.com", product) for product in products)
    (row,) = overview(replace(map_of(node), kinds=kinds), pending_of()).nodes
    assert row.kinds == expected


def test_devices_in_use_are_listed_before_free_and_possible_ones() -> None:
    node = NodeOfDevices(
        "node-a", devices=(device("a", "blocked"), device("b"), device("c", "tainted"), device("d", "in-use"))
    )
    (row,) = overview(map_of(node), pending_of()).nodes
    assert [name for name, *_ in row.devices] == ["d", "c", "b", "a"]


def test_a_node_notes_why_its_devices_cannot_be_used() -> None:
    node = NodeOfDevices(
        "node-a", unschedulable="cordoned", problems=("incomplete: 1 of 2 slices",), devices=(device("a"),)
    )
    assert overview(map_of(node), pending_of()).nodes[0].note == "cordoned; incomplete: 1 of 2 slices"


def test_totals_count_devices_and_pods() -> None:
    shown = map_of(NodeOfDevices("node-a", devices=(device("a"), device("b", "in-use"))))
    found = overview(shown, pending_of(group("g1", count=3), group("g2")))
    assert found.totals == "2 devices: 1 free, 1 in-use; 4 pods pending, 2 causes"
    assert overview(map_of(), pending_of()).totals == "0 devices; 0 pods pending"


def test_ages_count_from_the_time_of_the_view() -> None:
    old = group("g1", oldest="2026-11-29T06:30:00Z", namespaces=("a", "b"))
    (row,) = overview(map_of(), pending_of(old)).groups
    assert (row.age, row.namespaces) == ("30m", "2 namespaces")


def test_pods_that_fit_are_listed_with_what_they_wait_for() -> None:
    (row,) = overview(map_of(), pending_of(group("g1", waits="it has not been scheduled yet"))).groups
    assert row.summary == "it has not been scheduled yet"


def test_a_cluster_that_does_not_respond_is_named_with_its_error() -> None:
    lost = replace(CLUSTER, connected=False, error="nothing is listening on this address")
    assert overview(map_of(cluster=lost), pending_of()).error == "nothing is listening on this address"
    assert overview(map_of(), pending_of()).error == ""


def test_devices_are_shown_where_pods_may_not_be_read() -> None:
    found = overview(map_of(NodeOfDevices("node-a", devices=(device("a"),))), None, "you may not list pods")
    assert (found.totals, found.problem, len(found.nodes)) == ("1 device: 1 free", "you may not list pods", 1)
