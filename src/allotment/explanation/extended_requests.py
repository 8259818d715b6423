"""Requests of a claim for extended resources, and the containers that use each request (KEP-5004).

Containers that run at the same time have separate requests. Init containers run one after the other before them: they
use the devices of later containers, and of their additional needs only the largest one is requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from allotment.model.core import Container, Pod

IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"


class ExtendedRequest(NamedTuple):
    """A request of the claim: a number of devices for one extended resource of one container."""

    request: str
    resource: str
    devices: int


class ContainerUse(NamedTuple):
    """The use of a request by a container, as one of its extended resources."""

    container: str
    resource: str
    request: str


def is_extended(resource: str) -> bool:
    """Whether a resource is an extended resource, which device plugins or DeviceClasses provide.

    >>> [is_extended(r) for r in ("cpu", "hugepages-2Mi", "kubernetes.io/batteries", "nvidia.com/gpu")]
    [False, False, False, True]
    """
    domain, slash, _ = resource.partition("/")
    if not slash or domain.startswith("requests."):
        return False
    return resource.startswith(IMPLICIT_PREFIX) or not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def extended_resources(pod: Pod) -> tuple[str, ...]:
    """The names of the extended resources that a pod requests, sorted."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple(sorted({name for c in containers for name in _names(c) if is_extended(name) and _count(c, name)}))


def device_requests(pod: Pod, resources: Iterable[str]) -> tuple[list[ExtendedRequest], list[ContainerUse]]:
    """The requests of the claim, in its order, and the containers that use them."""
    requests: list[ExtendedRequest] = []
    uses: list[ContainerUse] = []
    for resource in sorted(resources):
        resource_requests, resource_uses = _of_resource(pod, resource)
        requests += resource_requests
        uses += resource_uses
    return sorted(requests), uses


def uses_of(pod: Pod, requests: Iterable[str]) -> list[ContainerUse]:
    """The containers that use the requests of a claim that was created for the pod."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    resources = set()
    for request in requests:
        _, container, _, number = request.split("-")
        resources.add(_names(containers[int(container)])[int(number)])
    return device_requests(pod, resources)[1]


def _of_resource(pod: Pod, resource: str) -> tuple[list[ExtendedRequest], list[ContainerUse]]:
    # Init containers that end before the main containers start; sidecars (restartPolicy Always) keep running.
    ends = [c.restart_policy != "Always" for c in pod.spec.init_containers] + [False] * len(pod.spec.containers)
    containers = (*pod.spec.init_containers, *pod.spec.containers)

    def request(index: int, count: int) -> ExtendedRequest:
        names = _names(containers[index])
        return ExtendedRequest(f"container-{index}-request-{names.index(resource)}", resource, count)

    running = {index: request(index, _count(container, resource)) for index, container in enumerate(containers)
               if not ends[index] and _count(container, resource)}  # fmt: skip
    uses = [ContainerUse(containers[index].name, resource, r.request) for index, r in running.items()]
    additional: list[ExtendedRequest] = []
    init_uses: list[ContainerUse] = []
    for index, container in enumerate(containers):
        left = _count(container, resource) if ends[index] else 0
        for later in (r for later_index, r in running.items() if later_index > index):
            if left <= 0:
                break
            init_uses.append(ContainerUse(container.name, resource, later.request))
            left -= later.devices
        if left > 0:
            additional.append(request(index, left))
            init_uses.append(ContainerUse(container.name, resource, ""))
    if not additional:
        return list(running.values()), [*uses, *init_uses]
    largest = max(additional, key=lambda r: r.devices)
    init_uses = [use if use.request else use._replace(request=largest.request) for use in init_uses]
    return [largest, *running.values()], [*uses, *init_uses]


def _names(container: Container) -> list[str]:
    """All resources of a container, including native ones, because requests are numbered by all of them."""
    return sorted({*container.resources.requests, *container.resources.limits})


def _count(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource) or container.resources.limits.get(resource)
    return amount.value() if amount is not None else 0
