"""Export to kwok: simulated nodes with the slices that their drivers would publish.

kwok keeps a Node that has its annotation ready and its pods running, so a cluster of thousands fits on a laptop. The
taint repels pods that do not tolerate simulated nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from allotment.fleet.catalog.export.naming import object_name
from allotment.fleet.catalog.instance_type import CapacityType, InstanceType
from allotment.fleet.catalog.templates import hardware_of, template_of
from allotment.fleet.modes import parse_mode
from allotment.fleet.slices import slices_of
from allotment.model import DEFAULT_RELEASE
from allotment.model.core import Node, NodeSpec, Taint
from allotment.model.meta import ObjectMeta
from allotment.model.resource import ResourceSlice

_KWOK: Final = "kwok.x-k8s.io/node"


def kwok_objects(
    types: Iterable[InstanceType],
    mode: str = "",
    capacity: CapacityType = "on-demand",
    nodes: int = 1,
    kube: str = DEFAULT_RELEASE,
) -> tuple[Node | ResourceSlice, ...]:
    """Return the requested number of nodes of each type, spread over its zones, each with its own slices."""
    objects: list[Node | ResourceSlice] = []
    for instance in types:
        for number in range(1, nodes + 1):
            name = object_name(instance.key, str(number))
            zone = instance.zones[(number - 1) % len(instance.zones)] if instance.zones else ""
            node = template_of(instance, mode, name, zone=zone, capacity_type=capacity, kube=kube).node
            meta = ObjectMeta(name=name, labels=node.metadata.labels | {"type": "kwok"}, annotations={_KWOK: "fake"})
            taint = Taint(key=_KWOK, value="fake", effect="NoSchedule")
            objects.append(msgspec.structs.replace(node, metadata=meta, spec=NodeSpec(taints=(taint,))))
            if instance.hardware:
                machine = hardware_of(instance)
                objects += slices_of(machine, parse_mode(mode, machine), name, kube)
    return tuple(objects)
