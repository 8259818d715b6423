"""Extended resources that DeviceClasses provide (KEP-5004): the claim that the scheduler creates for such a pod.

A node whose own kubelet advertises the resource provides it without a claim. What must be claimed therefore depends on
the node, and nodes are grouped by which of the pod's resources they lack.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.engine.refusal import Diagnosis
from allotment.explanation.extended_requests import is_extended, uses_of
from allotment.explanation.extended_resources import extended_claim, no_provider, served_by_classes
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.generated_claims import EXTENDED_RESOURCE_ANNOTATION, name_prefix
from allotment.model.resource import DeviceClass, ResourceClaim
from allotment.model.trees import Tree, to_tree, to_value
from allotment.node_fit.node_table import node_indexes
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirements

_SUFFIX: Final = "extended-resources"


class NodeGroup(NamedTuple):
    """Nodes on which the same resources must come from devices, and the claim for these; None if no claim is needed."""

    node_mask: int
    claim: ResourceClaim | None


def unserved_diagnosis(
    classes: Mapping[str, DeviceClass], demand: PodRequirements, machines: NodeCache, features: Features
) -> Diagnosis | None:
    """Return why one of the pod's extended resources has no provider at all; None if every one has."""
    by_devices = served_by_classes(classes, demand, features)
    for name in demand.extended:
        if is_extended(name) and name not in by_devices and not any(m.allocatable.get(name) for m in machines):
            return no_provider(name, classes, features)
    return None


def node_groups(
    pod: Tree, by_devices: frozenset[str], among: int, machines: NodeCache, classes: Mapping[str, DeviceClass],
    features: Features,
) -> list[NodeGroup]:  # fmt: skip
    """Group the nodes of a bit mask by what must be claimed there."""
    lacking: dict[frozenset[str], int] = {}
    for place in node_indexes(among):
        machine = machines.at(place)
        if machine is not None:
            lack = frozenset(name for name in by_devices if machine.allocatable.get(name, 0) <= 0)
            lacking[lack] = lacking.get(lack, 0) | 1 << place
    value = to_value(_readable(pod), Pod)
    found: list[NodeGroup] = []
    for lack, places in lacking.items():
        plugins = frozenset(
            name for c in (*value.spec.init_containers, *value.spec.containers)
            for name in (*c.resources.requests, *c.resources.limits) if name not in lack
        )  # fmt: skip
        claim = extended_claim(value, classes, features, plugins) if lack else None
        if not isinstance(claim, Diagnosis):
            found.append(NodeGroup(places, claim))
    return found


def claim_tree(pod: Tree, claim: ResourceClaim) -> Tree:
    """Return the claim as it is created; the API server completes its name."""
    metadata = pod["metadata"]
    owner = {
        "apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True,
    }  # fmt: skip
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": name_prefix(metadata["name"], _SUFFIX),
            "namespace": metadata.get("namespace", ""),
            "annotations": {EXTENDED_RESOURCE_ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": to_tree(claim.spec),
    }


def mappings(pod: Tree, claim: ResourceClaim) -> list[Tree]:
    """Return which request of the claim serves which container's resource (``extendedResourceClaimStatus``)."""
    uses = uses_of(to_value(_readable(pod), Pod), [request.name for request in claim.spec.devices.requests])
    return [{"containerName": use.container, "resourceName": use.resource, "requestName": use.request} for use in uses]


def pod_value(pod: Tree) -> Pod:
    """Return a pod with its name, owners, and the resources of its containers."""
    readable = _readable(pod)
    owners = [{k: v for k, v in o.items() if v is not None} for o in pod["metadata"].get("ownerReferences") or ()]
    return to_value({**readable, "metadata": {**readable["metadata"], "ownerReferences": owners}}, Pod)


def _readable(pod: Tree) -> Tree:
    """Return the relevant parts of a pod, without null values."""
    metadata, spec = pod["metadata"], pod["spec"]

    def containers(name: str) -> list[Tree]:
        return [
            {k: c[k] for k in ("name", "resources", "restartPolicy") if c.get(k) is not None}
            for c in spec.get(name) or ()
        ]

    return {
        "metadata": {"name": metadata["name"], "namespace": metadata.get("namespace", ""), "uid": metadata["uid"]},
        "spec": {"initContainers": containers("initContainers"), "containers": containers("containers")},
    }
