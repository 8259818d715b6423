"""Orphaned slices of missing nodes are ignored."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.explanation import Explanation, explain
from allotment.explanation.orphaned_slices import split_orphaned
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import (
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)

FEATURES = Features("1.36")


def cluster(*without: str, served: bool = True) -> list[Object]:
    """Two nodes with a T4 each, from a server or from a file, without some of the Node objects."""
    found = cluster_of(parse_fleet(["a=1xt4", "b=1xt4"]), "1.36")
    values: list[Object] = [*found.nodes, *found.slices, *found.classes]
    values = [value for value in values if not (isinstance(value, Node) and value.metadata.name in without)]
    if served:
        values = [
            replace(value, metadata=replace(value.metadata, uid=f"uid-{value.metadata.name}")) for value in values
        ]
    return values


def claim(count: int) -> ResourceClaim:
    """A claim for ``count`` GPUs."""
    exactly = ExactDeviceRequest(device_class_name="gpu.nvidia.com", count=count)
    spec = ResourceClaimSpec()
    devices = replace(spec.devices, requests=(DeviceRequest(name="gpu", exactly=exactly),))
    return ResourceClaim(metadata=replace(DeviceClass().metadata, name="c", namespace="ns"),
                         spec=replace(spec, devices=devices))  # fmt: skip


def answered(*values: Object) -> Explanation:
    return explain(values, FEATURES)


def incomplete(values: list[Object]) -> list[Object]:
    """The slices of node b announce one more slice than exists."""
    found = []
    for value in values:
        if isinstance(value, ResourceSlice) and value.spec.node_name == "b":
            pool = replace(value.spec.pool, resource_slice_count=2)
            value = replace(value, spec=replace(value.spec, pool=pool))
        found.append(value)
    return found


def test_the_reason_ignores_missing_nodes() -> None:
    explained = answered(*incomplete(cluster("b")), claim(2))
    (answer,) = explained.answers
    assert answer.reasons is not None
    assert answer.reasons.headline.code == "too-few-devices"
    assert explained.notes == ("slices of node b are ignored, because the node does not exist",)


def test_no_device_is_allocated_on_a_missing_node() -> None:
    (answer,) = answered(*cluster("a"), claim(1)).answers
    assert answer.node == "b"
    (answer,) = answered(*cluster("b"), claim(1)).answers
    assert answer.node == "a"


def test_files_may_lack_node_objects() -> None:
    values = cluster("a", served=False)
    (answer,) = answered(*values, claim(1)).answers
    assert answer.node in ("a", "b")
    slices = [value for value in values if isinstance(value, ResourceSlice)]
    assert split_orphaned(slices, [value for value in values if isinstance(value, Node)]).gone == ()


def test_slices_alone_are_a_cluster() -> None:
    (answer,) = answered(*cluster("a", "b"), claim(1)).answers
    assert answer.fits
