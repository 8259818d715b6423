"""Which requests a claim for extended resources has, and which container uses the devices of which (KEP-5004).

Containers that live at the same time have requests of their own. Init containers come one after the other and before
the rest: they use what those have that follow them, and of what they need beyond only the largest part is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from allotment.model.core import Container, Pod

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


class Share(NamedTuple):
    """So many devices for one resource of one container."""

    request: str
    resource: str
    devices: int


class Use(NamedTuple):
    """A container uses the devices of a request as a resource of its own."""

    container: str
    resource: str
    request: str


def is_extended(resource: str) -> bool:
    """Whether a resource name is one that device plugins or classes serve.

    >>> [is_extended(r) for r in ("cpu", "hugepages-2Mi", "kubernetes.io/batteries", "nvidia.com/gpu")]
    [False, False, False, True]
    """
    domain, slash, _ = resource.partition("/")
    if not slash or domain.startswith("requests."):
        return False
    return resource.startswith(IMPLICIT) or not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def asked(pod: Pod) -> tuple[str, ...]:
    """The extended resources that a pod asks for, by name."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return tuple(
        sorted({name for one in containers for name in _names(one) if is_extended(name) and _count(one, name)})
    )


def shared_out(pod: Pod, resources: Iterable[str]) -> tuple[list[Share], list[Use]]:
    """The requests, in the order in which a claim has them, and who uses them."""
    shares: list[Share] = []
    uses: list[Use] = []
    for resource in sorted(resources):
        of_one = _of_resource(pod, resource)
        shares += of_one[0]
        uses += of_one[1]
    return sorted(shares), uses


def uses_of(pod: Pod, requests: Iterable[str]) -> list[Use]:
    """Who uses the requests of a claim that was made for the pod."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    resources = set()
    for request in requests:
        _, container, _, number = request.split("-")
        resources.add(_names(containers[int(container)])[int(number)])
    return shared_out(pod, resources)[1]


def _of_resource(pod: Pod, resource: str) -> tuple[list[Share], list[Use]]:
    passing = [one.restart_policy != "Always" for one in pod.spec.init_containers] + [False] * len(pod.spec.containers)
    containers = (*pod.spec.init_containers, *pod.spec.containers)

    def share(at: int, count: int) -> Share:
        names = _names(containers[at])
        return Share(f"container-{at}-request-{names.index(resource)}", resource, count)

    lasting = {at: share(at, _count(one, resource)) for at, one in enumerate(containers)
               if not passing[at] and _count(one, resource)}  # fmt: skip
    uses = [Use(containers[at].name, resource, one.request) for at, one in lasting.items()]
    beyond: list[Share] = []
    before: list[Use] = []
    for at, container in enumerate(containers):
        left = _count(container, resource) if passing[at] else 0
        for later in (one for after, one in lasting.items() if after > at):
            if left <= 0:
                break
            before.append(Use(container.name, resource, later.request))
            left -= later.devices
        if left > 0:
            beyond.append(share(at, left))
            before.append(Use(container.name, resource, ""))
    if not beyond:
        return list(lasting.values()), [*uses, *before]
    largest = max(beyond, key=lambda share: share.devices)
    before = [one if one.request else one._replace(request=largest.request) for one in before]
    return [largest, *lasting.values()], [*uses, *before]


def _names(container: Container) -> list[str]:
    """The resources of a container, also those that are not extended: requests are numbered by all of them."""
    return sorted({*container.resources.requests, *container.resources.limits})


def _count(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource) or container.resources.limits.get(resource)
    return amount.value() if amount is not None else 0
