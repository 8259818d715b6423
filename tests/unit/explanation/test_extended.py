"""The claim that the scheduler creates for extended resources (KEP-5004)."""

from __future__ import annotations

from allotment.engine.refusal import Diagnosis
from allotment.explanation import Answer, explain
from allotment.explanation.extended_requests import device_requests, uses_of
from allotment.explanation.extended_resources import extended_claim, plugin_resources
from allotment.model.core import Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceClass, DeviceClassSpec, ResourceClaim
from tests.unit.engine.objects import device, slice_of

FEATURES = Features(kube="1.36")
GPU = "example.com/gpu"


def class_(name: str, resource: str | None = None, created: str = "") -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name, creation_timestamp=created or None),
        spec=DeviceClassSpec(extended_resource_name=resource),
    )


def container(amount: int, resource: str = GPU, restart: str | None = None) -> Container:
    limits = {resource: Quantity.of_int(amount), "cpu": Quantity.of_int(1)}
    return Container(name="c", resources=ResourceRequirements(limits=limits), restart_policy=restart)


def pod(*containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="ns"), spec=PodSpec(containers=containers, init_containers=init))


def requests_of(
    pod_: Pod, *classes: DeviceClass, features: Features = FEATURES, plugins: frozenset[str] = frozenset()
) -> list[tuple[str, str, int]] | str:
    found = extended_claim(pod_, {c.metadata.name: c for c in classes}, features, plugins)
    if isinstance(found, Diagnosis):
        return found.headline.code
    if not isinstance(found, ResourceClaim):
        return []
    exact = [(request.name, request.exactly) for request in found.spec.devices.requests]
    return [(name, e.device_class_name, e.count) for name, e in exact if e is not None]


def test_one_request_per_container_and_resource() -> None:
    found = requests_of(pod(container(2), container(1)), class_("gpu", GPU))
    assert found == [("container-0-request-1", "gpu", 2), ("container-1-request-1", "gpu", 1)]


def test_requests_are_numbered_by_all_resources_of_the_container() -> None:
    """``cpu`` is sorted first and counts, as the claims of kube-scheduler 1.36.3 show."""
    both = container(1)
    amounts = {**both.resources.limits, "acme.com/tpu": Quantity.of_int(3), "zoo.org/x": Quantity.of_int(2)}
    both = Container(name="c", resources=ResourceRequirements(limits=amounts))
    classes = class_("gpu", GPU), class_("tpu", "acme.com/tpu"), class_("x", "zoo.org/x")
    found = [
        ("container-0-request-0", "tpu", 3),
        ("container-0-request-2", "gpu", 1),
        ("container-0-request-3", "x", 2),
    ]
    assert requests_of(pod(both), *classes) == found


def test_every_class_provides_an_implicit_resource() -> None:
    resource = "deviceclass.resource.kubernetes.io/gpu"
    assert requests_of(pod(container(1, resource)), class_("gpu")) == [("container-0-request-1", "gpu", 1)]
    assert requests_of(pod(container(1, resource + "x")), class_("gpu")) == "extended-resource-missing"


def test_the_newest_class_provides_the_resource_then_the_first_by_name() -> None:
    old, new = class_("a", GPU, "2026-01-01T00:00:00Z"), class_("b", GPU, "2026-02-01T00:00:00Z")
    assert requests_of(pod(container(1)), old, new) == [("container-0-request-1", "b", 1)]
    assert requests_of(pod(container(1)), class_("b", GPU), class_("a", GPU)) == [("container-0-request-1", "a", 1)]


def test_an_init_container_uses_devices_of_later_containers_first() -> None:
    gpu = class_("gpu", GPU)
    assert requests_of(pod(container(2), init=(container(2),)), gpu) == [("container-1-request-1", "gpu", 2)]
    beyond = requests_of(pod(container(1), init=(container(3),)), gpu)
    assert beyond == [("container-0-request-1", "gpu", 2), ("container-1-request-1", "gpu", 1)]
    sidecar = requests_of(pod(container(1), init=(container(1, restart="Always"),)), gpu)
    assert sidecar == [("container-0-request-1", "gpu", 1), ("container-1-request-1", "gpu", 1)]


def test_only_the_largest_additional_need_of_init_containers_is_requested() -> None:
    inits = (container(3), container(5), container(4))
    found = requests_of(pod(container(1), init=inits), class_("gpu", GPU))
    assert found == [("container-1-request-1", "gpu", 4), ("container-3-request-1", "gpu", 1)]


def test_an_init_container_uses_later_sidecars_but_not_earlier_ones() -> None:
    gpu, sidecar = class_("gpu", GPU), container(2, restart="Always")
    assert requests_of(pod(init=(container(2), sidecar)), gpu) == [("container-1-request-1", "gpu", 2)]
    with_sidecar = requests_of(pod(init=(sidecar, container(2))), gpu)
    assert with_sidecar == [("container-0-request-1", "gpu", 2), ("container-1-request-1", "gpu", 2)]


def named(name: str, amount: int, restart: str | None = None) -> Container:
    return Container(name=name, resources=container(amount).resources, restart_policy=restart)


def test_every_container_is_mapped_to_its_requests() -> None:
    tried = pod(named("main", 1), named("more", 1), init=(named("small", 1), named("large", 4), named("middle", 3)))
    shares, uses = device_requests(tried, [GPU])
    most, main, more = (f"container-{number}-request-1" for number in (1, 3, 4))
    assert [(share.request, share.devices) for share in shares] == [(most, 2), (main, 1), (more, 1)]
    assert [(use.container, use.request) for use in uses] == [
        ("main", main), ("more", more), ("small", main), ("large", main), ("large", more), ("large", most),
        ("middle", main), ("middle", more), ("middle", most),
    ]  # fmt: skip
    assert uses_of(tried, [most, main, more]) == uses


def with_plugin(name: str, amount: int) -> Node:
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable={GPU: Quantity.of_int(amount)}))


def test_a_device_plugin_provides_a_resource_without_a_claim() -> None:
    assert plugin_resources([with_plugin("n", 4), with_plugin("none", 0)]) == {"n": {GPU}}
    assert requests_of(pod(container(1)), plugins=frozenset({GPU})) == []


def answers_with_mixed_nodes(*pods: Pod) -> tuple[Answer, ...]:
    """Answers for pods in a cluster where one node has a device plugin, and another a driver with one device."""
    nodes = with_plugin("old", 4), Node(metadata=ObjectMeta(name="new"))
    return explain([*nodes, class_("gpu", GPU), slice_of(device("d0"), node="new"), *pods], FEATURES).answers


def requesting(name: str, amount: int, node: str = "") -> Pod:
    selector = {"kubernetes.io/hostname": node} if node else {}
    spec = PodSpec(containers=(container(amount),), node_selector=selector)
    return Pod(metadata=ObjectMeta(name=name, namespace="ns"), spec=spec)


def test_a_class_provides_a_resource_on_nodes_without_a_device_plugin() -> None:
    first, second = answers_with_mixed_nodes(requesting("p", 1), requesting("q", 1))
    assert first.node == "new"
    assert [given.device for given in first.claims[0].devices] == ["d0"]
    assert (second.outcome, second.claims) == ("fits", ()), "the other node is left"


def test_a_device_plugin_on_another_node_does_not_provide_the_resource() -> None:
    (answer,) = answers_with_mixed_nodes(requesting("p", 2, "new"))
    assert answer.reasons is not None
    assert answer.reasons.headline.code == "too-few-devices"


def test_without_the_feature_no_class_provides_a_resource() -> None:
    off = Features(kube="1.35")
    assert requests_of(pod(container(1)), class_("gpu", GPU), features=off) == "extended-resource-missing"
