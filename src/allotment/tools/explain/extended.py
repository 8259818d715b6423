"""Extended resources that a DeviceClass serves (KEP-5004): ``nvidia.com/gpu: 1`` without any claim in the pod.

The scheduler makes one claim for all of a pod's extended resources, with a request per container and resource. Where a
node's device plugin has the resource, that serves it and no claim is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.engine.diagnosis.names import did_you_mean
from allotment.engine.refusal import Diagnosis
from allotment.model.core import Container, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from allotment.placing.demand import Demand
from allotment.tools.explain.obstacles import told

_IMPLICIT = "deviceclass.resource.kubernetes.io/"


def plugged(nodes: Iterable[Node]) -> frozenset[str]:
    """Resources that some node's kubelet has from a device plugin."""
    return frozenset(
        name for node in nodes for name, amount in node.status.allocatable.items() if "/" in name and amount.sign() > 0
    )


def is_extended(resource: str) -> bool:
    """Whether a resource name is one that device plugins or classes serve.

    >>> [is_extended(r) for r in ("cpu", "hugepages-2Mi", "kubernetes.io/batteries", "nvidia.com/gpu")]
    [False, False, False, True]
    """
    domain, slash, _ = resource.partition("/")
    if not slash or domain.startswith("requests."):
        return False
    return resource.startswith(_IMPLICIT) or not (domain == "kubernetes.io" or domain.endswith(".kubernetes.io"))


def extended_claim(
    pod: Pod, classes: Mapping[str, DeviceClass], features: Features, plugins: frozenset[str]
) -> ResourceClaim | Diagnosis | None:
    """The claim for a pod's extended resources, why there can be none, or None if it needs none."""
    serving = _serving(classes) if features.enabled("DRAExtendedResource") else {}
    requests: list[DeviceRequest] = []
    own = pod.spec.containers
    # An init container that ends before the others start uses their devices again, as far as they go.
    later: dict[str, int] = {}
    for container in own:
        for resource, count in _asked(container):
            later[resource] = later.get(resource, 0) + count
    everyone = (*pod.spec.init_containers, *own)
    for i, container in enumerate(everyone):
        ends = i < len(pod.spec.init_containers) and container.restart_policy != "Always"
        for j, (resource, count) in enumerate(_asked(container)):
            if resource in plugins:
                continue
            class_ = serving.get(resource)
            if class_ is None and features.enabled("DRAExtendedResource") and resource.startswith(_IMPLICIT):
                name = resource.removeprefix(_IMPLICIT)
                class_ = name if name in classes else None
            if class_ is None:
                return provided_by_none(resource, classes, features)
            if ends:
                beyond = count - later.get(resource, 0)
                later[resource] = max(count, later.get(resource, 0))
                count = beyond
            if count > 0:
                exactly = ExactDeviceRequest(device_class_name=class_, allocation_mode="ExactCount", count=count)
                requests.append(DeviceRequest(name=f"container-{i}-request-{j}", exactly=exactly))
    if not requests:
        return None
    return ResourceClaim(
        metadata=ObjectMeta(name=f"{pod.metadata.name}-extended-resources", namespace=pod.metadata.namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests))),
    )


def served(classes: Mapping[str, DeviceClass], demand: Demand, features: Features) -> frozenset[str]:
    """The pod's extended resources that some class serves."""
    if not demand.extended or not features.enabled("DRAExtendedResource"):
        return frozenset()
    names = {c.spec.extended_resource_name for c in classes.values()}
    return frozenset(
        name
        for name in demand.extended
        if name in names or (name.startswith(_IMPLICIT) and name.removeprefix(_IMPLICIT) in classes)
    )


def _asked(container: Container) -> list[tuple[str, int]]:
    """Extended resources of a container with their counts, in the order of their names."""
    amounts = {**container.resources.requests, **container.resources.limits}
    return [(name, amounts[name].value()) for name in sorted(amounts) if is_extended(name) and amounts[name].sign() > 0]


def _serving(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """Class by resource: of several the newest, then the first by name."""
    found: dict[str, str] = {}
    for name in sorted(classes, reverse=True):
        resource = classes[name].spec.extended_resource_name
        if not resource:
            continue
        before = found.get(resource)
        newer = classes[name].metadata.creation_timestamp or ""
        if before is None or newer >= (classes[before].metadata.creation_timestamp or ""):
            found[resource] = name
    return found


def provided_by_none(resource: str, classes: Mapping[str, DeviceClass], features: Features) -> Diagnosis:
    """Why a pod cannot have a resource that no node has and no class serves."""
    serving = _serving(classes) if features.enabled("DRAExtendedResource") else {}
    known = [*serving, *(_IMPLICIT + name for name in classes)]
    summary = f'no node and no DeviceClass provides "{resource}".{did_you_mean(resource, known)}'
    return told("extended-resource-missing", summary.rstrip("."), kubernetes=f"Insufficient {resource}")
