"""The Kubernetes objects of a trace have its values, in names and fields that an API server accepts."""

from __future__ import annotations

from allotment.fleet.catalog import catalog
from allotment.model.core import Node, Pod
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceSlice
from allotment.tools.replay.manifests import PRODUCTS, name_of, nodes_of, objects_of
from allotment.tools.replay.trace import TraceNode, TracePod


def test_a_pod_is_followed_by_the_claim_that_it_references() -> None:
    pod, claim = objects_of([TracePod("p-1", 6000, 12288, 1, 460)])
    assert isinstance(pod, Pod)
    assert isinstance(claim, ResourceClaim)
    assert pod.spec.resource_claims[0].resource_claim_name == claim.metadata.name
    requests = pod.spec.containers[0].resources.requests
    assert {name: str(amount) for name, amount in requests.items()} == {"cpu": "6", "memory": "12Gi"}


def test_a_share_is_a_request_for_the_published_capacity() -> None:
    [_, claim] = objects_of([TracePod("p-1", 6000, 12288, 1, 460)])
    [_, slice_, _] = nodes_of([TraceNode("n", 64_000, 262_144, 2, "P100")])
    assert isinstance(claim, ResourceClaim)
    assert isinstance(slice_, ResourceSlice)
    request = claim.spec.devices.requests[0].exactly
    assert request is not None
    assert request.capacity is not None
    [(name, amount)] = request.capacity.requests.items()
    assert slice_.spec.devices is not None
    assert str(amount) == "460"
    assert [str(device.capacity[name].value) for device in slice_.spec.devices] == ["1k", "1k"]


def test_several_gpus_are_one_request_with_a_count() -> None:
    [_, claim] = objects_of([TracePod("p-1", 6000, 12288, 4, 1000)])
    assert isinstance(claim, ResourceClaim)
    request = claim.spec.devices.requests[0].exactly
    assert request is not None
    assert request.capacity is not None
    assert (request.count, str(request.capacity.requests["shares"])) == (4, "1k")


def test_a_pod_without_gpus_has_no_claim() -> None:
    [pod] = objects_of([TracePod("p-1", 6000, 12288, 0, 0)])
    assert isinstance(pod, Pod)
    assert not pod.spec.resource_claims


def test_a_maximum_per_node_is_a_topology_spread_with_a_global_minimum_of_zero() -> None:
    [pod, _] = objects_of([TracePod("i_1", 6000, 12288, 1, 1000, app="app_0/HN", per_node=8)])
    assert isinstance(pod, Pod)
    assert pod.metadata.labels == {"app": "app_0-HN"}
    [constraint] = pod.spec.topology_spread_constraints
    assert (constraint.max_skew, constraint.topology_key) == (8, "kubernetes.io/hostname")
    assert constraint.when_unsatisfiable == "DoNotSchedule"
    assert constraint.min_domains == 2**31 - 1


def test_nodes_come_with_the_device_class_of_the_claims() -> None:
    *_, device_class = nodes_of([TraceNode("n", 64_000, None, 0)])
    assert isinstance(device_class, DeviceClass)
    [_, claim] = objects_of([TracePod("p-1", 1, 1, 1, 1000)])
    assert isinstance(claim, ResourceClaim)
    request = claim.spec.devices.requests[0].exactly
    assert request is not None
    assert request.device_class_name == device_class.metadata.name


def test_a_node_without_gpus_has_no_slice() -> None:
    node, *rest = nodes_of([TraceNode("n", 64_000, 1024, 0)])
    assert isinstance(node, Node)
    assert not any(isinstance(value, ResourceSlice) for value in rest)


def test_names_are_converted_to_valid_kubernetes_names() -> None:
    assert name_of(TracePod("Instance_0/A", 1, 1, 0, 0)) == "instance-0-a"


def test_every_model_has_a_product_in_the_catalog() -> None:
    offered = {type_.accelerator.product for type_ in catalog() if type_.accelerator is not None}
    for model, products in PRODUCTS.items():
        assert offered & set(products), model
