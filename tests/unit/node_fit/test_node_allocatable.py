"""The node's resources that devices use: amounts, status entries, and pod-level resources that must cover them."""

from __future__ import annotations

import pytest

from allotment.model.pod_resources import claim_amounts
from allotment.model.resource import AllocationResult, ResourceSlice
from allotment.model.trees import Tree, read_value
from allotment.node_fit.node_allocatable import (
    ClaimUse,
    MissingCapacity,
    NodeAllocatableDevices,
    claim_statuses,
    uncovered_by_pod_level,
)
from allotment.node_fit.pod_requirements import PodRequirementsCache


def devices_with(**resources: Tree) -> NodeAllocatableDevices:
    """Two devices of one driver that use these resources of their node."""
    found = NodeAllocatableDevices()
    spec = {
        "driver": "d", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{n}", "nodeAllocatableResources": resources} for n in range(2)],
    }  # fmt: skip
    found.put(read_value({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    return found


def use(*names: str, consumed: Tree | None = None, entries: tuple[str, ...] = ("gpu",)) -> ClaimUse:
    results: list[Tree] = [{"request": "r", "driver": "d", "pool": "n", "device": name} for name in names]
    if consumed:
        results = [{**result, "consumedCapacity": consumed} for result in results]
    return ClaimUse("c", read_value({"devices": {"results": results}}, AllocationResult), frozenset(entries))


SPEC: Tree = {
    "initContainers": [{"name": "i", "resources": {"claims": [{"name": "gpu"}]}}],
    "containers": [
        {"name": "a", "resources": {"claims": [{"name": "gpu"}, {"name": "gpu", "request": "r"}]}},
        {"name": "b"},
    ],
}


def test_the_mappings_of_all_devices_of_a_claim_are_added() -> None:
    devices = devices_with(cpu={"mapping": {"deviceMultiplier": "1500m"}})
    assert claim_statuses(SPEC, [use("gpu-0", "gpu-1")], devices) == [
        {"resourceClaimName": "c", "containers": ["i", "a", "a"], "mapping": [{"name": "cpu", "quantity": "3"}]}
    ]


def test_a_consumed_capacity_is_multiplied_and_must_be_there() -> None:
    devices = devices_with(memory={"mapping": {"capacityKey": "ram", "capacityMultiplier": "1.5"}})
    (status,) = claim_statuses(SPEC, [use("gpu-0", consumed={"ram": "2Gi"})], devices)
    assert status["mapping"] == [{"name": "memory", "quantity": "3Gi"}]
    assert claim_statuses(SPEC, [use("gpu-0", consumed={"other": "1"})], devices) == []
    with pytest.raises(MissingCapacity, match="Capacity key 'ram' is set in NodeAllocatableResources for resource mem"):
        claim_statuses(SPEC, [use("gpu-0")], devices)


def test_overhead_counts_per_pod_and_per_container_reference() -> None:
    devices = devices_with(memory={"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}})
    statuses = claim_statuses(SPEC, [use("gpu-0")], devices)
    assert statuses[0]["overhead"] == [{"name": "memory", "perPod": "100Mi", "perContainer": "50Mi"}]
    amounts = claim_amounts({"nodeAllocatableResourceClaimStatuses": statuses})
    assert {name: str(amount) for name, amount in amounts.items()} == {"memory": "250Mi"}
    assert not devices.is_mapped(use("gpu-0").allocation)


def test_the_slice_that_a_device_left_no_longer_counts() -> None:
    devices = devices_with(cpu={"mapping": {"deviceMultiplier": "1"}})
    assert devices.is_mapped(use("gpu-0").allocation)
    devices.remove("s")
    assert not devices
    assert claim_statuses(SPEC, [use("gpu-0")], devices) == []


def test_the_requirements_of_a_pod_include_its_devices() -> None:
    statuses = [{"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "4"}]}]
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}
    cache = PodRequirementsCache()
    found = cache.of(spec, {"nodeAllocatableResourceClaimStatuses": statuses})
    assert found.requests == {"cpu": 5000}
    assert cache.of(spec, {"nodeAllocatableResourceClaimStatuses": statuses}) is found
    assert cache.of(spec, {}).requests == {"cpu": 1000}


def test_pod_level_resources_must_cover_the_devices() -> None:
    statuses = [
        {"resourceClaimName": "c", "containers": ["a"], "mapping": [{"name": "cpu", "quantity": "4"}]},
        {"resourceClaimName": "h", "mapping": [{"name": "hugepages-2Mi", "quantity": "4Mi"}]},
    ]
    container = {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "hugepages-2Mi": "2Mi"}}}
    spec: Tree = {"containers": [container]}
    assert uncovered_by_pod_level(spec, statuses) == ""
    enough = {"requests": {"cpu": "5"}, "limits": {"cpu": "6", "hugepages-2Mi": "6Mi"}}
    assert uncovered_by_pod_level({**spec, "resources": enough}, statuses) == ""
    for part, name, amount, text in (
        ("requests", "cpu", "4", "pod level request for cpu is insufficient to cover the aggregated container and "),
        ("limits", "cpu", "5", "pod level limit for cpu is insufficient to cover the limit and DRA overhead for cont"),
        ("limits", "hugepages-2Mi", "4Mi", "pod level limit for hugepages-2Mi is insufficient to cover the aggregated"),
    ):
        resources = {**enough, part: {**enough[part], name: amount}}
        assert uncovered_by_pod_level({**spec, "resources": resources}, statuses).startswith(text)
