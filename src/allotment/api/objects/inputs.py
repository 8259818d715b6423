"""The objects that a question is about, and those of its cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from allotment.engine.cluster.inventory import Inventory
from allotment.explanation.node_eligibility import eligibility_nodes
from allotment.explanation.orphaned_slices import split_orphaned
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

_Kind = TypeVar("_Kind", bound=Object)


@dataclass(frozen=True, slots=True)
class Inputs:
    """``queried``: the objects that the question is about; ``cluster``: those of the cluster.

    ``notes``: what the user should know about reading the cluster, as sentences.
    """

    features: Features
    cluster: tuple[Object, ...] = ()
    queried: tuple[Object, ...] = ()
    notes: tuple[str, ...] = ()

    def of(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        """Return all objects of a kind, those of the cluster first."""
        return tuple(value for value in (*self.cluster, *self.queried) if isinstance(value, kind))


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The objects with devices and their allocations; ``gone``: nodes that exist only in slices, if the cluster has
    others."""

    features: Features
    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]
    claims: tuple[ResourceClaim, ...]
    rules: tuple[DeviceTaintRule, ...]
    gone: tuple[str, ...] = ()

    @classmethod
    def of(cls, inputs: Inputs) -> ClusterState:
        """Return the cluster state of the inputs."""
        nodes = inputs.of(Node)
        kept = split_orphaned(inputs.of(ResourceSlice), nodes)
        return cls(
            inputs.features,
            nodes,
            kept.slices,
            inputs.of(DeviceClass),
            inputs.of(ResourceClaim),
            inputs.of(DeviceTaintRule),
            kept.gone,
        )

    def inventory(self) -> Inventory:
        """Return the engine's inventory; nodes that exist only in slices have only the hostname label."""
        return Inventory.of(
            self.features,
            nodes=(node.facts for node in eligibility_nodes(self.nodes, self.slices).values()),
            slices=self.slices,
            classes=self.classes,
            claims=self.claims,
            taint_rules=self.rules,
        )


def queued(values: Iterable[Object]) -> tuple[Object, ...]:
    """Return a cluster's objects with pods in scheduling order: by priority, then age; other kinds keep their order."""
    return tuple(sorted(values, key=_turn))


def _turn(value: Object) -> tuple[int, str]:
    if not isinstance(value, Pod):
        return (-(2**31), "")
    return (-(value.spec.priority or 0), value.metadata.creation_timestamp or "")
