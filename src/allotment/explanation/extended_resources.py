"""Extended resources that a DeviceClass provides (KEP-5004): ``nvidia.com/gpu: 1`` without a claim in the pod.

The scheduler creates one claim for all extended resources of a pod, with a request per container and resource. On a
node whose device plugin provides the resource, no claim is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.engine.refusal import Diagnosis, SuggestedChange
from allotment.explanation.extended_corrections import corrected_names
from allotment.explanation.extended_requests import IMPLICIT_PREFIX, device_requests, extended_resources
from allotment.explanation.extended_requests import is_extended as is_extended
from allotment.explanation.obstacles import refused_everywhere
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.node_label_resources import is_node_label, node_label_meaning
from allotment.model.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from allotment.node_fit.pod_requirements import PodRequirements


def provided_resources(node: Node) -> frozenset[str]:
    """Resources that device plugins provide on a node."""
    return frozenset(name for name, amount in node.status.allocatable.items() if "/" in name and amount.sign() > 0)


def plugin_resources(nodes: Iterable[Node]) -> Mapping[str, frozenset[str]]:
    """Resources that device plugins provide, by node."""
    found = {node.metadata.name: provided_resources(node) for node in nodes}
    return {node: names for node, names in found.items() if names}


def extended_claim(
    pod: Pod, classes: Mapping[str, DeviceClass], features: Features, plugins: frozenset[str]
) -> ResourceClaim | Diagnosis | None:
    """The claim for a pod's extended resources, the reason if there can be none, or None if no claim is needed."""
    serving = _class_by_resource(classes) if features.enabled("DRAExtendedResource") else {}
    on = features.enabled("DRAExtendedResource")
    classes_of: dict[str, str] = {}
    for resource in extended_resources(pod):
        if resource in plugins:
            continue
        class_ = serving.get(resource)
        if (
            class_ is None
            and on
            and resource.startswith(IMPLICIT_PREFIX)
            and resource.removeprefix(IMPLICIT_PREFIX) in classes
        ):
            class_ = resource.removeprefix(IMPLICIT_PREFIX)
        if class_ is None:
            return no_provider(resource, classes, features)
        classes_of[resource] = class_
    if not classes_of:
        return None
    requests = [
        DeviceRequest(
            name=share.request,
            exactly=ExactDeviceRequest(
                device_class_name=classes_of[share.resource], allocation_mode="ExactCount", count=share.devices
            ),
        )
        for share in device_requests(pod, classes_of)[0]
    ]
    return ResourceClaim(
        metadata=ObjectMeta(name=f"{pod.metadata.name}-extended-resources", namespace=pod.metadata.namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests))),
    )


def served_by_classes(
    classes: Mapping[str, DeviceClass], demand: PodRequirements, features: Features
) -> frozenset[str]:
    """The pod's extended resources that a DeviceClass provides."""
    if not demand.extended or not features.enabled("DRAExtendedResource"):
        return frozenset()
    names = {c.spec.extended_resource_name for c in classes.values()}
    return frozenset(
        name
        for name in demand.extended
        if name in names or (name.startswith(IMPLICIT_PREFIX) and name.removeprefix(IMPLICIT_PREFIX) in classes)
    )


def _class_by_resource(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """DeviceClass by extended resource; of several classes the newest, then the first by name."""
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


def name_corrections(
    pod: Pod, where: tuple[str, str], classes: Mapping[str, DeviceClass], features: Features, plugins: frozenset[str]
) -> tuple[SuggestedChange, ...]:
    """Changes of the first resource that nothing provides to similar ones that a DeviceClass provides."""
    serving = _class_by_resource(classes) if features.enabled("DRAExtendedResource") else {}
    unknown = (name for name in extended_resources(pod) if name not in serving and name not in plugins)
    resource = next((name for name in unknown if not name.startswith(IMPLICIT_PREFIX)), "")
    return corrected_names(pod, where, resource, serving) if resource else ()


def no_provider(resource: str, classes: Mapping[str, DeviceClass], features: Features) -> Diagnosis:
    """The reason if neither a node nor a DeviceClass provides a resource."""
    serving = _class_by_resource(classes) if features.enabled("DRAExtendedResource") else {}
    known = [*serving, *(IMPLICIT_PREFIX + name for name in classes)]
    summary = f'no node and no DeviceClass provides "{resource}"'
    if is_node_label(resource):
        summary += f", which is {node_label_meaning(resource)}"
    elif "/mig-" not in resource:  # the resource of whole GPUs does not mean the same
        summary += f".{did_you_mean(resource, known)}"
    return refused_everywhere("extended-resource-missing", summary.rstrip("."), kubernetes=f"Insufficient {resource}")
