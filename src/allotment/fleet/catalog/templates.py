"""Template nodes of instance types, and the ResourceSlices that their drivers publish.

Devices are computed once for each hardware and mode, as for simulated nodes; templates of other nodes share them and
differ only in names. Memory is the driver's figure, not the cloud's: a plan for 80Gi by the cloud's figure of an H100
would order a node on which the pod never runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import CapacityType, InstanceType, Template
from allotment.fleet.catalog.labels import labels_of
from allotment.fleet.catalog.runtime_attributes import runtime_only, symbolic, unmeasured
from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import Hardware, hardware
from allotment.fleet.modes import mode_names, parse_mode
from allotment.fleet.profiles import servers
from allotment.fleet.slices import slices_of
from allotment.model import DEFAULT_RELEASE
from allotment.model.core import Node, NodeSpec, NodeStatus
from allotment.model.meta import ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceSlice

_SIMULATED: Final = "allotment.dev/simulated"
_HARDWARE: Final = "allotment.dev/hardware"
#: Placeholder of the node name while devices are computed; not part of any published name.
ANY: Final = "node"


class _PublishedDevices(NamedTuple):
    """The slices of hardware in a mode, on any node."""

    slices: tuple[ResourceSlice, ...]
    runtime_only: frozenset[str]
    unmeasured: frozenset[str]


def modes_of(instance: InstanceType) -> tuple[str, ...]:
    """Return the mode names of this type's GPUs; none without whole GPUs.

    >>> from allotment.fleet.catalog.packaged import catalog
    >>> modes_of(next(one for one in catalog() if one.name == "g5.xlarge"))
    ('full', 'shared', 'consumable-shares', 'vfio')
    """
    return mode_names(instance.accelerator) if instance.hardware and instance.accelerator else ()


def template_of(
    instance: InstanceType,
    mode: str,
    node: str,
    *,
    zone: str = "",
    capacity_type: CapacityType = "on-demand",
    kube: str = DEFAULT_RELEASE,
) -> Template:
    """Return a template node of a type, with its GPUs in ``mode`` (``--fleet`` syntax, "" is whole GPUs).

    ``zone``: by default the first of its region. Raises FleetError for a mode that its GPUs do not have.
    """
    if not instance.hardware:
        if mode:
            raise FleetError(f"{instance.key} has no whole GPUs, so mode {mode!r} is not supported")
        return Template(instance, "", _node(instance, None, "", node, zone, capacity_type), (), frozenset())
    published = _published(instance.hardware, mode, kube)
    form = f"{instance.hardware}/{mode}" if mode else instance.hardware
    return Template(
        instance,
        form,
        _node(instance, hardware_of(instance), form, node, zone, capacity_type),
        tuple(on_node(slice_, node) for slice_ in published.slices),
        published.runtime_only,
        published.unmeasured,
    )


def hardware_of(instance: InstanceType) -> Hardware:
    """Return the hardware of a type with whole GPUs."""
    return hardware_called(instance.hardware)


@lru_cache(maxsize=512)
def hardware_called(name: str) -> Hardware:
    """Return hardware by a type's ``--fleet`` name."""
    if name in servers():
        return hardware(name)
    count, times, model = name.partition("x")
    return hardware(model, int(count)) if times and count.isdecimal() else hardware(name)


@lru_cache(maxsize=2048)
def _published(name: str, mode: str, kube: str) -> _PublishedDevices:
    machine = hardware_called(name)
    parsed = parse_mode(mode, machine)
    made = slices_of(machine, parsed, ANY, kube)
    names = runtime_only(made, parsed)
    unknown = unmeasured(machine) & names
    return _PublishedDevices(symbolic(made, names, unknown), names, unknown)


def on_node(made: ResourceSlice, node: str) -> ResourceSlice:
    """Return a slice of node `ANY` for another node."""
    spec = made.spec
    return msgspec.structs.replace(
        made,
        metadata=ObjectMeta(name=f"{made.metadata.name.removesuffix(ANY)}{node}"),
        spec=msgspec.structs.replace(spec, node_name=node, pool=msgspec.structs.replace(spec.pool, name=node)),
    )


def _node(
    instance: InstanceType, machine: Hardware | None, form: str, node: str, zone: str, capacity_type: CapacityType
) -> Node:
    labels = labels_of(instance, machine, node, zone, capacity_type)
    annotations = {_SIMULATED: "true"} | ({_HARDWARE: form} if form else {})
    return Node(
        metadata=ObjectMeta(name=node, labels=labels, annotations=annotations),
        spec=NodeSpec(taints=instance.taints),
        status=_status(instance),
    )


def _status(instance: InstanceType) -> NodeStatus:
    room = instance.room
    if room is None:
        return NodeStatus()
    allocatable = {
        "cpu": _milli(room.cpu_milli),
        "ephemeral-storage": Quantity.binary(disk_of(instance).mib << 20),
        "memory": Quantity.binary(room.memory_mib << 20),
        "pods": Quantity.of_int(room.pods),
    }
    capacity = dict(allocatable)
    if instance.vcpu is not None:
        capacity["cpu"] = _milli(int(instance.vcpu * 1000))
    if instance.memory_gib is not None:
        capacity["memory"] = Quantity.binary(int(instance.memory_gib * 1024) << 20)
    return NodeStatus(capacity=capacity, allocatable=allocatable)


def _milli(amount: int) -> Quantity:
    return Quantity.of_int(amount // 1000) if amount % 1000 == 0 else Quantity.parse(f"{amount}m")
