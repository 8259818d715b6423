"""Exports of the catalog for other autoscalers, and omissions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from allotment.fleet.catalog import InstanceType, catalog
from allotment.fleet.catalog.export import (
    NodeClass,
    karpenter_exclusion,
    karpenter_objects,
    kwok_objects,
    template_objects,
)
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.resource import ResourceSlice
from allotment.model.validation import ValidationContext
from allotment.model.validation.slices import resource_slice
from tests.unit.fleet.catalog.conftest import Type

CONTEXT = ValidationContext(Features(kube="1.36"), lambda expression, stored: ())
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def values(requirements: list[Any], key: str) -> list[str]:
    (found,) = [requirement["values"] for requirement in requirements if requirement["key"] == key]
    return list(found)


def test_karpenter_export_has_a_node_pool_per_provider_and_an_overlay_per_price(sold: Type) -> None:
    types = [sold("aws/g5.xlarge"), sold("gcp/g2-standard-4"), sold("aws/p4d.24xlarge")]
    objects = karpenter_objects(types)
    assert [tree["kind"] for tree in objects] == ["NodePool", *["NodeOverlay"] * 2, "NodePool", *["NodeOverlay"] * 2]
    pool, overlay = objects[0]["spec"]["template"]["spec"], objects[1]["spec"]
    assert pool["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert values(pool["requirements"], "node.kubernetes.io/instance-type") == ["g5.xlarge", "p4d.24xlarge"]
    assert values(pool["requirements"], "karpenter.sh/capacity-type") == ["on-demand"]
    assert overlay["price"] == "1.006"
    assert objects[5]["spec"]["price"] == "0.397336"
    assert values(objects[5]["spec"]["requirements"], "karpenter.sh/capacity-type") == ["spot"]


def test_every_karpenter_type_has_valid_names_and_prices() -> None:
    objects = karpenter_objects(catalog())
    names = [(tree["kind"], tree["metadata"]["name"]) for tree in objects]
    assert len(set(names)) == len(names)
    assert all(_NAME.fullmatch(name) and len(name) <= 63 for _, name in names)
    for tree in objects:
        if tree["kind"] == "NodeOverlay":
            assert re.fullmatch(r"\d+(\.\d+)?", tree["spec"]["price"])
            assert float(tree["spec"]["price"]) > 0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("lambda/gpu_1x_a10", "no Karpenter node class is known for lambda"),
        ("gcp/n1-standard-8+1xT4", "does not offer as an instance type"),
        ("aws/p5e.48xlarge", "price is unknown"),
        ("aws/g5.xlarge", ""),
    ],
)
def test_types_that_cannot_be_exported_to_karpenter(sold: Type, name: str, why: str) -> None:
    reason = karpenter_exclusion(sold(name))
    assert why in reason
    assert bool(reason) == bool(why)
    assert bool(karpenter_objects([sold(name)])) == (not why)


def test_other_providers_need_a_node_class(sold: Type) -> None:
    pool, _ = karpenter_objects([sold("lambda/gpu_1x_a10")], node_class=NodeClass("example.com", "Class", "gpu"))
    assert pool["spec"]["template"]["spec"]["nodeClassRef"]["kind"] == "Class"
    zones = [
        requirement for requirement in pool["spec"]["template"]["spec"]["requirements"] if "zone" in requirement["key"]
    ]
    assert zones == []  # it has none


def split(objects: tuple[Node | ResourceSlice, ...]) -> tuple[list[Node], list[ResourceSlice]]:
    nodes = [value for value in objects if isinstance(value, Node)]
    return nodes, [value for value in objects if isinstance(value, ResourceSlice)]


def test_cluster_autoscaler_templates_have_complete_pools_and_no_allotment_labels(sold: Type) -> None:
    nodes, slices = split(template_objects([sold("aws/p4d.24xlarge"), sold("aws/m6i.xlarge")]))
    assert [node.metadata.name for node in nodes] == [
        "template-node-for-aws-p4d-24xlarge", "template-node-for-aws-m6i-xlarge"
    ]  # fmt: skip
    assert not any(name.startswith("allotment.dev/") for node in nodes for name in node.metadata.annotations)
    gpu, plain = (node.metadata.annotations for node in nodes)
    assert gpu["capacity.cluster-autoscaler.kubernetes.io/gpu-count"] == "8"
    assert gpu["capacity.cluster-autoscaler.kubernetes.io/dra-driver"] == "gpu.nvidia.com"
    assert "capacity.cluster-autoscaler.kubernetes.io/dra-driver" not in plain
    assert [slice_.spec.pool.resource_slice_count for slice_ in slices] == [1]
    assert all(list(resource_slice(slice_, CONTEXT)) == [] for slice_ in slices)


def test_kwok_nodes_are_spread_over_zones_and_tainted(sold: Type) -> None:
    nodes, slices = split(kwok_objects([sold("gcp/a2-highgpu-1g")], "static-mig=1g.5gb:7", nodes=5))
    assert [node.metadata.name for node in nodes] == [f"gcp-a2-highgpu-1g-{number}" for number in range(1, 6)]
    zones = [node.metadata.labels["topology.kubernetes.io/zone"] for node in nodes]
    assert zones == [f"us-central1-{letter}" for letter in "abcfa"]
    for node in nodes:
        assert node.metadata.annotations == {"kwok.x-k8s.io/node": "fake"}
        assert [taint.key for taint in node.spec.taints] == ["kwok.x-k8s.io/node"]
        assert node.status.allocatable
    devices = [device for slice_ in slices for device in slice_.spec.devices or ()]
    assert len({device.attributes["uuid"].string for device in devices}) == 35
    assert all(list(resource_slice(slice_, CONTEXT)) == [] for slice_ in slices)


def test_names_are_unique() -> None:
    types: list[InstanceType] = [instance for instance in catalog() if not instance.unusable]
    nodes, _ = split(kwok_objects(types))
    names = [node.metadata.name for node in nodes]
    assert len(set(names)) == len(types)
    assert all(_NAME.fullmatch(name) for name in names)
