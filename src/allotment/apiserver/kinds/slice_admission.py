"""Admission of ResourceSlices whose devices take resources of their node (1.37, NodeDeclaredFeatureValidator).

A kubelet that does not know the feature would not count these resources, so every node that can use such a device must
declare it. The API server checks this after validation.
"""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import Write
from allotment.engine.cluster.node_selection import NodeFacts, reaches
from allotment.model.quoting import quote
from allotment.model.resource import Device, ResourceSlice, ResourceSliceSpec
from allotment.model.trees import Tree

FEATURE: Final = "DRANodeAllocatableResources"


def check_allocatable_resources(value: ResourceSlice, write: Write) -> None:
    """Raises StatusError (403) if a node that a device maps to does not declare the feature, or there is none."""
    if not write.features.enabled(FEATURE):
        return
    for device in value.spec.devices or ():
        if device.node_allocatable_resources:
            problem = _problem(value.spec, device, write)
            if problem:
                raise forbidden("resourceslices.resource.k8s.io", value.metadata.name, problem)


def _problem(spec: ResourceSliceSpec, device: Device, write: Write) -> str:
    by_device = spec.per_device_node_selection is True
    selection: Device | ResourceSliceSpec = device if by_device else spec
    name, selector, all_nodes = selection.node_name, selection.node_selector, selection.all_nodes
    if name:
        entry = write.reader.get("nodes", "", name)
        if entry is None:
            return f"node {quote(name)} not found for device {quote(device.name)}"
        return _undeclared(entry.tree)
    if selector is None and not all_nodes:
        return (
            f"device {quote(device.name)} in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
        )
    for entry in write.reader.list("nodes"):
        facts = NodeFacts(entry.name, entry.tree["metadata"].get("labels") or {})
        if reaches(facts, None, all_nodes, selector) and (problem := _undeclared(entry.tree)):
            return problem
    return ""


def _undeclared(node: Tree) -> str:
    if FEATURE in ((node.get("status") or {}).get("declaredFeatures") or ()):
        return ""
    return f"node {quote(node['metadata']['name'])} does not support {FEATURE} feature"
