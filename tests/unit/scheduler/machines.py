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
    machines = NodeCache(Inventory(FEATURES))
    for name in names:
        machines.put(node(name, **each)[1])
    return machines


def nodes_in_zones(**zones: str) -> NodeCache:
    """Nodes, each in its zone."""
    machines = NodeCache(Inventory(FEATURES))
    for name, zone in zones.items():
        machines.put(node(name, labels={"zone": zone})[1])
    return machines


def tree_of(name: str, **more: Any) -> Tree:
    tree = pod(name, **more)[1]
    tree["metadata"]["uid"] = name
    return tree


def assigned_pod(name: str, **more: Any) -> AssignedPod:
    tree = tree_of(name, **more)
    return to_assigned_pod(tree, requirements_of(**{k: v for k, v in more.items() if k != "labels"}))


def requirements_of(**more: Any) -> PodRequirements:
    return _REQUIREMENTS.of(pod("any", **more)[1]["spec"])
