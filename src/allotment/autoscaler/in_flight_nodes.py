"""The nodes and slices that machines in flight will provide, which count as supply so that nothing is ordered twice.

A machine's own slices count once they are complete; until then those of its template do, under the name of its node if
it has one. A pod that is planned onto a machine gets ``nominatedNodeName`` as the scheduler will see it, so that a new
plan does not use its room for another pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from allotment.autoscaler.order import MachineOrder
from allotment.autoscaler.readiness import pools_of
from allotment.fleet.catalog import template_of
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.core import Node, Pod, Taint
from allotment.model.meta import Object
from allotment.model.resource import ResourceSlice


class InFlightNode(NamedTuple):
    """The node and the slices that a machine in flight will provide."""

    node: Node
    slices: tuple[ResourceSlice, ...]

    @property
    def pools(self) -> dict[str, int]:
        """Complete pools by driver that make it ready."""
        return pools_of(self.slices)


def in_flight_node(order: MachineOrder, instance: InstanceType, node: str, kube: str) -> InFlightNode:
    """Return what an order will provide, under the name of its node."""
    machine = order.machine
    template = template_of(
        instance, order.mode, node, zone=machine.zone, capacity_type=machine.capacity_type, kube=kube
    )
    metadata = template.node.metadata
    # The plan's labels belong to a node of another name.
    labels = {**machine.labels, **metadata.labels}
    taints: dict[tuple[str, str], Taint] = {(taint.key, taint.effect): taint for taint in template.node.spec.taints}
    taints |= {(taint.key, taint.effect): taint for taint in machine.taints}
    named = replace(
        template.node,
        metadata=replace(metadata, labels=labels),
        spec=replace(template.node.spec, taints=tuple(taints.values())),
    )
    return InFlightNode(named, template.slices)


def with_in_flight_nodes(
    values: Iterable[Object], machines: Sequence[InFlightNode], nominated: Mapping[str, str], leaving: frozenset[str]
) -> list[Object]:
    """Return a cluster's objects with machines in flight as existing nodes.

    ``nominated``: nodes by uid of the pods planned onto them. ``leaving``: nodes to be removed; they are left out.
    """
    instead = {machine.node.metadata.name for machine in machines} | leaving
    found: list[Object] = []
    for value in values:
        if isinstance(value, Node):
            if value.metadata.name in instead:
                continue
        elif isinstance(value, ResourceSlice):
            if value.spec.node_name in instead:
                continue
        elif isinstance(value, Pod) and not value.spec.node_name:
            node = nominated.get(value.metadata.uid, "")
            if node != value.status.nominated_node_name:
                value = replace(value, status=replace(value.status, nominated_node_name=node))
        found.append(value)
    for machine in machines:
        found += (machine.node, *machine.slices)
    return found
