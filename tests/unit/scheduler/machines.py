"""Nodes and pods for tests of the pure functions."""

from __future__ import annotations

from typing import Any

from allotment.engine.cluster.inventory import Inventory
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import AssignedPod, to_assigned_pod
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirements, PodRequirementsCache
from tests.unit.scheduler.world import FEATURES, node, pod

_REQUIREMENTS = PodRequirementsCache()


def nodes_named(*names: str, **each: Any) -> NodeCache:
    """Nodes that differ only in their name."""
    nodes = NodeCache(Inventory(FEATURES))
    for name in names:
        nodes.put(node(name, **each)[1])
    return nodes


def nodes_in_zones(**zones: str) -> NodeCache:
    """Nodes, each in its zone."""
    nodes = NodeCache(Inventory(FEATURES))
    for name, zone in zones.items():
        nodes.put(node(name, labels={"zone": zone})[1])
    return nodes


def tree_of(name: str, **more: Any) -> Tree:
    tree = pod(name, **more)[1]
    tree["metadata"]["uid"] = name
    return tree


def assigned_pod(name: str, **more: Any) -> AssignedPod:
    tree = tree_of(name, **more)
    return to_assigned_pod(tree, requirements_of(**{k: v for k, v in more.items() if k != "labels"}))


def requirements_of(**more: Any) -> PodRequirements:
    return _REQUIREMENTS.of(pod("any", **more)[1]["spec"])
