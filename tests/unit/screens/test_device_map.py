"""The map: totals as ``allot free`` counts them, devices to scale, holders, and changes since a revision."""

from __future__ import annotations

import json
from dataclasses import replace as replace_fields

import pytest
from msgspec.structs import replace

import allotment
from allotment.model.core import Node
from allotment.model.resource import ResourceClaim
from allotment.screens.device_map import device_map
from allotment.screens.header import encoded
from allotment.watched.view import NodeChanges
from tests.unit.screens.clusters import WORLDS, fleet, pod, template, view, world


@pytest.mark.parametrize("name", WORLDS)
def test_totals_are_those_of_free(name: str) -> None:
    cluster = world(name)
    report = allotment.free(cluster.cluster)
    screen = device_map(cluster)
    assert sum(screen.totals.values()) == report.count()
    assert all(screen.totals.get(state, 0) == report.count(state) for state in ("free", "in-use", "tainted", "blocked"))
    drawn = {(node.name, device.name, device.state) for node in screen.nodes for device in screen.devices_of(node)}
    assert drawn == {(node.node, device.device, device.state) for node in report.nodes for device in node.devices}


def test_names_do_not_turn_the_text_after_them() -> None:
    cluster = replace_fields(view(*fleet("t4-4x-pcie")), name="a\u202eb\u2066c \u2019")
    assert json.loads(encoded(device_map(cluster)))["cluster"]["name"] == "a\ufffdb\ufffdc \u2019"


def test_a_device_names_who_uses_it() -> None:
    cluster = view(
        *fleet("t4-4x-pcie"), template(), *pod("web-0", "gpu-1", node="t4-4x-pcie-1", owner="StatefulSet/web")
    )
    screen = device_map(cluster)
    (node,) = screen.nodes
    device = list(screen.devices_of(node))[1]
    (holder,) = (screen.holders[number] for number in device.holders)
    assert (device.state, device.prepared) == ("in-use", True)
    assert (holder.claim, holder.pods, holder.workload) == ("ml/web-0-gpu-x1", ("ml/web-0",), "StatefulSet ml/web")


def test_a_pod_that_does_not_start_has_no_prepared_devices() -> None:
    started, claim = pod("a", "gpu-0", node="t4-4x-pcie-1")
    waiting = replace(started, status=replace(started.status, phase="Pending"))
    screen = device_map(view(*fleet("t4-4x-pcie"), waiting, claim))
    assert screen.nodes[0].devices[0].prepared is False


def test_admin_access_is_marked_and_does_not_use_the_device() -> None:
    own, claim = pod("monitor", "gpu-0", node="t4-4x-pcie-1")
    allocation = claim.status.allocation
    assert allocation is not None
    results = tuple(replace(result, admin_access=True) for result in allocation.devices.results)
    admin = replace(allocation, devices=replace(allocation.devices, results=results))
    screen = device_map(view(*fleet("t4-4x-pcie"), own, replace(claim, status=replace(claim.status, allocation=admin))))
    device = next(screen.devices_of(screen.nodes[0]))
    assert (device.state, device.admin_access) == ("free", True)
    assert [screen.holders[number].is_admin for number in device.holders] == [True]


def test_mig_devices_are_drawn_to_scale() -> None:
    screen = device_map(view(*fleet("a100-40gb/dynamic-mig")))
    spans = {device.name: device.span for device in screen.devices_of(screen.nodes[0])}
    assert spans["gpu-0-mig-3g20gb-9-4"] == (4, 4, 8)
    assert spans["gpu-0-mig-7g40gb-0-0"] == (0, 8, 8)
    assert {device.card for device in screen.devices_of(screen.nodes[0])} == {"gpu-0-counter-set"}


def test_kinds_are_counted_over_the_cluster() -> None:
    screen = device_map(view(*fleet("t4-4x-pcie:2", "a10:1")), names=["t4-4x-pcie-1"])
    assert [(kind.product, kind.memory, kind.count) for kind in screen.kinds] == [("Tesla T4", "15Gi", 8)]
    assert [node.name for node in screen.nodes] == ["t4-4x-pcie-1"]
    assert screen.totals == {"free": 9}


def test_only_changed_nodes_are_sent_again() -> None:
    objects = (*fleet("t4-4x-pcie:3"), template())
    first = view(*objects)
    later = replace_fields(
        view(*objects, *pod("a", "gpu-0", node="t4-4x-pcie-2"), revision=2),
        changes=(NodeChanges(2, frozenset({"t4-4x-pcie-2", "gone"})),),
    )
    screen = device_map(later, since=first.revision)
    assert [node.name for node in screen.nodes] == ["t4-4x-pcie-2"]
    assert (screen.removed, screen.since) == (("gone",), 1)
    assert screen.totals == {"free": 11, "in-use": 1}


def test_all_nodes_are_sent_if_the_changes_are_not_known() -> None:
    screen = device_map(view(*fleet("t4-4x-pcie:2"), revision=9), since=3)
    assert (len(screen.nodes), screen.since) == (2, 0)


def test_labels_for_groups_of_nodes() -> None:
    machine = next(each for each in fleet("t4-4x-pcie") if isinstance(each, Node))
    labels = {**machine.metadata.labels, "topology.kubernetes.io/zone": "z1", "nvidia.com/gpu.clique": "c.0"}
    cluster = view(replace(machine, metadata=replace(machine.metadata, labels=labels)), *fleet("t4-4x-pcie")[1:])
    assert device_map(cluster).nodes[0].labels == {"zone": "z1", "clique": "c.0", "instanceType": "t4-4x-pcie"}


MIG = "a100-40gb/static-mig=3g.20gb+2g.10gb+1g.5gb:2"


@pytest.mark.parametrize("machine", ["dgx-a100-40gb", "a100-40gb/dynamic-mig", MIG])
def test_nodes_with_equal_hardware_have_one_layout(machine: str) -> None:
    name, _, mode = machine.partition("/")
    screen = device_map(view(*fleet(f"{name}:3/{mode}".rstrip("/"))))
    assert len(screen.layouts) == 1
    assert [node.layout for node in screen.nodes] == [0, 0, 0]


def test_free_devices_cost_nothing() -> None:
    for node in device_map(view(*fleet("a100-40gb:2/dynamic-mig"))).nodes:
        assert (node.states, node.devices) == ({}, ())


def test_what_distinguishes_the_devices_of_a_node() -> None:
    cluster = view(*fleet("t4-4x-pcie:2"), template(), *pod("a", "gpu-1", node="t4-4x-pcie-2"))
    first, second = device_map(cluster).nodes
    assert (first.layout, first.states, first.devices) == (second.layout, {}, ())
    assert second.states == {"in-use": (1,)}
    assert [(device.at, device.holders) for device in second.devices] == [(1, (0,))]


def test_devices_of_a_cordoned_node() -> None:
    machine, *rest = fleet("t4-4x-pcie")
    assert isinstance(machine, Node)
    cordoned = replace(machine, spec=replace(machine.spec, unschedulable=True))
    (node,) = device_map(view(cordoned, *rest)).nodes
    assert node.states == {"unschedulable": (0, 1, 2, 3)}


def test_json_is_small() -> None:
    """A page of 500 nodes × 8 devices has to be smaller than 250 kB when compressed; this is before compression."""
    assert len(encoded(device_map(view(*fleet("dgx-a100-40gb:20"))))) < 20 * 8 * 60


def test_shares_show_how_much_is_used() -> None:
    screen = device_map(world("share-exhausted"))
    used = [
        device.used for node in screen.nodes for device in screen.devices_of(node) if device.state in ("shared", "full")
    ]
    assert used
    assert all(0 < part <= 1 for part in used)


def test_a_claim_without_pods_is_a_holder() -> None:
    _, claim = pod("a", "gpu-0", node="t4-4x-pcie-1")
    alone: ResourceClaim = replace(claim, status=replace(claim.status, reserved_for=()))
    screen = device_map(view(*fleet("t4-4x-pcie"), alone))
    assert screen.holders[0].pods == ()
    assert screen.nodes[0].devices[0].prepared is None
