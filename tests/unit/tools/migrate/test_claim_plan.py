"""The claim of a pod has as many devices as the device plugin counted; each container gets what it requests."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from allotment.tools.migrate.claim_plan import (
    ClaimPlan,
    ContainerUse,
    RequestKind,
    label,
    plan_claim,
    plan_shared_claim,
)
from allotment.tools.migrate.plugin_requests import ContainerRequests, PluginRequest, Role

ROLES: tuple[Role, ...] = get_args(Role)
RESOURCES = ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb")

requests = st.builds(
    PluginRequest,
    vendor=st.just("nvidia"),
    usage=st.just("whole"),
    resource=st.sampled_from(RESOURCES),
    count=st.integers(1, 8),
)


@st.composite
def pods(draw: st.DrawFn) -> list[ContainerRequests]:
    containers = []
    for number in range(draw(st.integers(1, 5))):
        own = draw(st.lists(requests, min_size=1, max_size=2, unique_by=lambda request: request.resource))
        role = draw(st.sampled_from(ROLES))
        names = tuple(request.resource for request in own)
        name = draw(st.sampled_from(("", "x" * 60))) + f"c{number}"
        containers.append(ContainerRequests(path=(number,), name=name, role=role, requests=tuple(own), resources=names))
    return containers


def kind_of(request: PluginRequest) -> RequestKind:
    return RequestKind(request.resource)


def seen(plan: ClaimPlan, use: ContainerUse, resource: str) -> int:
    """The number of devices of a resource that a container gets."""
    named = set(use.requests) or {request.name for request in plan.requests}
    return sum(r.number for r in plan.requests if r.name in named and r.kind.class_name == resource)


def requested_counts(containers: list[ContainerRequests], resource: str, roles: tuple[Role, ...]) -> list[int]:
    return [sum(a.count for a in c.requests if a.resource == resource) for c in containers if c.role in roles]


@given(pods())
def test_a_pod_gets_the_maximum_of_its_containers_and_each_init_container(pod: list[ContainerRequests]) -> None:
    plan, _ = plan_claim(pod, kind_of)
    for resource in RESOURCES:
        total = sum(request.number for request in plan.requests if request.kind.class_name == resource)
        staying = sum(requested_counts(pod, resource, ("container", "sidecar")))
        assert total == max([staying, *requested_counts(pod, resource, ("init",))])


@given(pods())
def test_every_container_gets_what_it_requests(pod: list[ContainerRequests]) -> None:
    plan, uses = plan_claim(pod, kind_of)
    for container, use in zip(pod, uses, strict=True):
        for resource in RESOURCES:
            wanted = sum(request.count for request in container.requests if request.resource == resource)
            got = seen(plan, use, resource)
            if container.role == "init":
                assert got >= wanted  # it ends before the others start, and may use their devices
            else:
                assert got == wanted


@given(pods())
def test_a_container_names_one_request_or_the_whole_claim_if_possible(pod: list[ContainerRequests]) -> None:
    plan, uses = plan_claim(pod, kind_of)
    for container, use in zip(pod, uses, strict=True):
        if len(use.requests) > 1:
            assert container.role != "init"
            assert len(container.requests) > 1
            assert len(plan.requests) > len(use.requests)


@given(pods())
def test_names_of_requests_are_labels_and_each_is_one_request(pod: list[ContainerRequests]) -> None:
    plan, uses = plan_claim(pod, kind_of)
    names = [request.name for request in plan.requests]
    assert len(set(names)) == len(names)
    assert all(name == label(name) and len(name) <= 63 for name in names)
    assert {name for use in uses for name in use.requests} <= set(names)


@given(pods())
def test_shares_are_one_gpu_for_any_requested_number(pod: list[ContainerRequests]) -> None:
    plan, _ = plan_shared_claim(pod, kind_of)
    assert all(request.number == 1 for request in plan.requests)
    assert {request.kind.class_name for request in plan.requests} == {a.resource for c in pod for a in c.requests}


def test_an_attribute_is_shared_by_requests_of_several_devices() -> None:
    two = PluginRequest(vendor="nvidia", usage="whole", resource="nvidia.com/gpu", count=2)
    container = ContainerRequests(path=(), name="a", role="container", requests=(two,), resources=("nvidia.com/gpu",))
    plan, _ = plan_claim([container], kind_of, "resource.kubernetes.io/pcieRoot")
    assert plan.same == (("gpu", "resource.kubernetes.io/pcieRoot"),)
