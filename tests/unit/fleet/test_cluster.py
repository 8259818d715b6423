"""A generated cluster has what a real one would: nodes with labels, slices, the vendors' classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from allotment.fleet import CLASSES, cluster_of, parse_fleet


def test_nodes_slices_and_classes_of_a_mixed_fleet() -> None:
    cluster = cluster_of(parse_fleet(["t4-4x-pcie:2,amd=mi300x-8x-oam"]))
    assert [node.metadata.name for node in cluster.nodes] == ["t4-4x-pcie-1", "t4-4x-pcie-2", "amd"]
    assert [s.spec.node_name for s in cluster.slices] == ["t4-4x-pcie-1", "t4-4x-pcie-2", "amd"]
    assert {c.metadata.name for c in cluster.classes} >= {"gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com"}
    assert cluster.nodes[0].metadata.labels["kubernetes.io/hostname"] == "t4-4x-pcie-1"
    assert "feature.node.kubernetes.io/pci-1002.present" in cluster.nodes[2].metadata.labels


def test_classes_are_those_of_the_fleets_vendors() -> None:
    assert cluster_of(parse_fleet(["mi300x"])).classes == CLASSES["amd"]


def test_classes_equal_those_that_the_vendors_install(shared: Callable[[str], Path]) -> None:
    for vendor in ("nvidia", "amd"):
        classes = CLASSES[vendor]
        text = shared(f"manifests/classes/{vendor}.yaml").read_text()
        wanted = {
            document["metadata"]["name"]: (
                document["spec"]["selectors"][0]["cel"]["expression"],
                document["spec"].get("extendedResourceName"),
            )
            for document in yaml.safe_load_all(text)
        }
        found = {
            c.metadata.name: (
                c.spec.selectors[0].cel.expression if c.spec.selectors[0].cel else "",
                c.spec.extended_resource_name,
            )
            for c in classes
        }
        assert found == wanted


def test_fleets_with_auto_partitioning_have_a_class_for_whole_gpus() -> None:
    names = [device_class.metadata.name for device_class in cluster_of(parse_fleet(["mi300x/auto", "mi300x"])).classes]
    assert names == ["gpu.amd.com", "gpu.amd.com-spx"]
    assert [device_class.metadata.name for device_class in cluster_of(parse_fleet(["mi300x"])).classes] == [
        "gpu.amd.com"
    ]
