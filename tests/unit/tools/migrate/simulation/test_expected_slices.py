"""The slices that a driver would publish, derived from a node's labels and device plugin resources."""

from __future__ import annotations

from collections import Counter

import pytest

from allotment.fleet import cluster_of, parse_fleet, slices_of
from allotment.model.core import Node, NodeStatus
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.tools.migrate.simulation.device_kind import kind_of_device
from allotment.tools.migrate.simulation.expected_slices import machine_of, with_expected
from allotment.tools.migrate.simulation.fleet_nodes import fleet_nodes
from allotment.tools.migrate.simulation.plugin_supply import CountedSupply
from allotment.tools.migrate.target import Target
from tests.unit.tools.migrate.trials import node, t4s

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.count": "2"}


def kinds(node_: Node) -> Counter[str]:
    machine = machine_of(node_)
    assert machine is not None
    devices = [device for slice_ in slices_of(*machine, "n", "1.36") for device in slice_.spec.devices or ()]
    return Counter(str(kind_of_device(device, "gpu.nvidia.com", False)) for device in devices)


def resources(**amounts: int) -> NodeStatus:
    named = {name.replace("__", "/").replace("_", "."): Quantity.of_int(count) for name, count in amounts.items()}
    return NodeStatus(allocatable=named)


@pytest.mark.parametrize(
    ("labels", "amounts", "published"),
    [
        (A100, {"nvidia_com__gpu": 2}, {"A100-SXM4-40GB": 2}),
        (A100, {"nvidia_com__mig-1g_5gb": 14}, {"1g.5gb of A100-SXM4-40GB": 14}),
        (
            A100,
            {"nvidia_com__mig-1g_5gb": 7, "nvidia_com__gpu": 1},
            {"1g.5gb of A100-SXM4-40GB": 7, "A100-SXM4-40GB": 1},
        ),
        (
            A100,
            {"nvidia_com__mig-3g_20gb": 2, "nvidia_com__mig-1g_5gb": 2},
            {"3g.20gb of A100-SXM4-40GB": 2, "1g.5gb of A100-SXM4-40GB": 2},
        ),
        (
            {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb"},
            {"nvidia_com__gpu": 6},
            {"2g.10gb of A100-SXM4-40GB": 6},
        ),
        (
            {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"},
            {"nvidia_com__gpu": 8},
            {"Tesla T4": 2},
        ),
    ],
)
def test_hardware_from_labels(labels: dict[str, str], amounts: dict[str, int], published: dict[str, int]) -> None:
    node_ = Node(metadata=ObjectMeta(name="n", labels=labels), status=resources(**amounts))
    assert kinds(node_) == Counter(published)


@pytest.mark.parametrize(
    "node_",
    [
        node("cpu-only"),
        node("no-labels", nvidia_com_gpu=2),
        node("unknown", {"nvidia.com/gpu.product": "NVIDIA-Nope"}, nvidia_com_gpu=2),
        node("intel", gpu_intel_com_i915=1),
    ],
    ids=lambda node_: node_.metadata.name,
)
def test_unknown_hardware_has_no_expected_slices(node_: Node) -> None:
    assert machine_of(node_) is None


@pytest.mark.parametrize(
    "words", ["t4-4x-pcie", "dgx-a100-40gb/static-mig=1g.5gb:7", "mi300x-8x-oam", "mi300x-8x-oam/cpx"]
)
def test_labels_of_a_machine_identify_its_devices(words: str) -> None:
    """From the labels and resources of a machine's node, the devices of that machine are derived."""
    cluster = cluster_of(parse_fleet([words]))
    for offer in fleet_nodes(parse_fleet([words]), (), ())[0].offers:
        if not isinstance(offer.supply, CountedSupply):
            continue
        amounts = {name: Quantity.of_int(left) for name, left in offer.supply.left.items() if left}
        node_ = Node(metadata=ObjectMeta(name="n", labels=dict(offer.labels)), status=NodeStatus(allocatable=amounts))
        machine = machine_of(node_)
        assert machine is not None
        published = [slices_of(*machine, "n", "1.36"), cluster.slices]
        found = [
            Counter(kind_of_device(d, s.spec.driver, False) for s in slices for d in s.spec.devices or ())
            for slices in published
        ]
        assert found[0] == found[1]


def test_published_slices_are_not_replaced() -> None:
    cluster = cluster_of(parse_fleet(["n1=t4-4x-pcie"]))
    target = Target(
        kube="1.36", features=Features(kube="1.36"), known=True, nodes=(t4s("n1"), t4s("n2")), slices=cluster.slices
    )
    after = with_expected(target)
    assert after.expected == ("n2",)
    assert {slice_.spec.node_name for slice_ in after.slices} == {"n1", "n2"}
    assert "gpu.nvidia.com" in {device_class.metadata.name for device_class in after.classes}
