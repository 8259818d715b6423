"""The node's resources that devices use: amounts, status entries, and pod-level resources that must cover them."""

from __future__ import annotations

import pytest

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model.meta import ObjectKey
from allotment.model.pod_resources import claim_amounts
from allotment.model.resource import AllocationResult, ResourceSlice
from allotment.model.trees import Tree, read_value
from allotment.node_fit.node_allocatable import (
    ClaimUse,
    NodeAllocatableDevices,
    UnknownUse,
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
    return ClaimUse(
        ObjectKey("ns", "c"), read_value({"devices": {"results": results}}, AllocationResult), frozenset(entries)
    )


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
    with pytest.raises(UnknownUse) as raised:
        claim_statuses(SPEC, [use("gpu-0")], devices)
    assert str(raised.value) == (
        "claim ns/c, device gpu-0: ConsumedCapacity is nil, but Capacity key 'ram' is set in NodeAllocatableResources "
        "for resource memory"
    )


def test_what_a_claim_uses_is_unknown_if_only_some_of_its_devices_are_published() -> None:
    """From the source of kube-scheduler 1.37.2."""
    devices = devices_with(cpu={"mapping": {"deviceMultiplier": "1"}})
    with pytest.raises(UnknownUse) as raised:
        claim_statuses(SPEC, [use("gpu-0", "gone")], devices)
    assert str(raised.value) == "claim ns/c, device gone, driver d: device gone not found in pool n for driver d"
    assert devices.is_incomplete(use("gpu-0", "gone").allocation)
    assert devices.is_mapped(use("gone", "gpu-0").allocation)
    assert claim_statuses(SPEC, [use("gone")], devices) == []
    assert not devices.is_incomplete(use("gone").allocation)


def test_a_device_counts_only_on_the_nodes_for_which_it_is_published() -> None:
    devices = devices_with(cpu={"mapping": {"deviceMultiplier": "1"}})
    assert claim_statuses(SPEC, [use("gpu-0")], devices, NodeFacts("n"))
    assert claim_statuses(SPEC, [use("gpu-0")], devices, NodeFacts("m")) == []
    each: list[Tree] = [{"name": f"gpu-{n}", "nodeName": n, "nodeAllocatableResources": {}} for n in ("n", "m")]
    each[0]["nodeAllocatableResources"] = {"cpu": {"mapping": {"deviceMultiplier": "1"}}}
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "perDeviceNodeSelection": True, "pool": pool, "devices": each}
    devices.put(read_value({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    with pytest.raises(UnknownUse, match="device gpu-m, driver d: device gpu-m does not match node"):
        claim_statuses(SPEC, [use("gpu-n", "gpu-m")], devices, NodeFacts("n"))


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


def test_a_slice_can_move_to_another_pool() -> None:
    devices = devices_with(cpu={"mapping": {"deviceMultiplier": "1"}})
    device = {"name": "gpu-0", "nodeAllocatableResources": {"memory": {"mapping": {"deviceMultiplier": "1Gi"}}}}
    pool = {"name": "other", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": [device]}
    devices.put(read_value({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice))
    assert claim_statuses(SPEC, [use("gpu-0")], devices) == []
    devices.remove("s")
    assert not devices


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
