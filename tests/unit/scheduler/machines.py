"""Nodes and pods for tests of the pure parts."""

from __future__ import annotations

from typing import Any

from allotment.engine.cluster.inventory import Inventory
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import Resident, resident_of
from allotment.node_fit.nodes import Machines
from allotment.node_fit.pod_requirements import Demand, Demands
from tests.unit.scheduler.world import FEATURES, node, pod

_DEMANDS = Demands()


def machines_of(*names: str, **each: Any) -> Machines:
    """Nodes of these names, all alike but for their name."""
    machines = Machines(Inventory(FEATURES))
    for name in names:
        machines.put(node(name, **each)[1])
    return machines


def in_zones(**zones: str) -> Machines:
    """Nodes and the zone of each."""
    machines = Machines(Inventory(FEATURES))
    for name, zone in zones.items():
        machines.put(node(name, labels={"zone": zone})[1])
    return machines


def tree_of(name: str, **more: Any) -> Tree:
    tree = pod(name, **more)[1]
    tree["metadata"]["uid"] = name
    return tree


def resident(name: str, **more: Any) -> Resident:
    tree = tree_of(name, **more)
    return resident_of(tree, demand(**{k: v for k, v in more.items() if k != "labels"}))


def demand(**more: Any) -> Demand:
    return _DEMANDS.of(pod("any", **more)[1]["spec"])
