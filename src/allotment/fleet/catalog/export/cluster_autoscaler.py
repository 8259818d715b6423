"""Export to cluster-autoscaler: node templates of node groups, with the slices that the nodes publish.

A provider answers ``NodeGroupTemplateNodeInfo`` with such a Node; with Cluster API the same facts are annotations
of the MachineDeployment, which are set on the Node here for copying. cluster-autoscaler renames template and slices for
every node that it simulates; it skips incomplete pools (``resourceSliceCount``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from allotment.fleet.catalog.export.naming import object_name
from allotment.fleet.catalog.instance_type import CapacityType, InstanceType, Template
from allotment.fleet.catalog.templates import template_of
from allotment.model import DEFAULT_RELEASE
from allotment.model.core import Node
from allotment.model.meta import ObjectMeta
from allotment.model.resource import ResourceSlice

_CAPACITY: Final = "capacity.cluster-autoscaler.kubernetes.io/"


def template_objects(
    types: Iterable[InstanceType], mode: str = "", capacity: CapacityType = "on-demand", kube: str = DEFAULT_RELEASE
) -> tuple[Node | ResourceSlice, ...]:
    """Return a Node and its slices for each type; values that are only known at run time are symbols."""
    objects: list[Node | ResourceSlice] = []
    for instance in types:
        name = object_name("template-node-for", instance.key, "" if capacity == "on-demand" else capacity)
        made = template_of(instance, mode, name, capacity_type=capacity, kube=kube)
        objects += (_node(made), *made.slices)
    return tuple(objects)


def _node(template: Template) -> Node:
    node, room = template.node, template.instance.room
    annotations = {}
    if room is not None:
        annotations = {
            f"{_CAPACITY}cpu": str(node.status.capacity["cpu"]),
            f"{_CAPACITY}memory": str(node.status.capacity["memory"]),
            f"{_CAPACITY}ephemeral-disk": str(node.status.capacity["ephemeral-storage"]),
            f"{_CAPACITY}maxPods": str(room.pods),
        }
    drivers = list(dict.fromkeys(slice_.spec.driver for slice_ in template.slices))
    if drivers:
        # Cluster API's template supports only whole GPUs of one model.
        annotations |= {f"{_CAPACITY}dra-driver": drivers[0], f"{_CAPACITY}gpu-count": str(template.instance.gpus)}
    meta = ObjectMeta(name=node.metadata.name, labels=node.metadata.labels, annotations=annotations)
    return msgspec.structs.replace(node, metadata=meta)
