"""Generated clusters: the nodes, ResourceSlices and DeviceClasses of a fleet description."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from allotment.fleet.description import FleetMachine
from allotment.fleet.device_classes import AMD_WHOLE_GPU, CLASSES
from allotment.fleet.modes import AutoPartition
from allotment.fleet.slices import slices_of
from allotment.model import DEFAULT_RELEASE
from allotment.model.core import HOSTNAME_LABEL, Node
from allotment.model.meta import ObjectMeta
from allotment.model.resource import DeviceClass, ResourceSlice

#: PCI vendor ids, as node feature discovery labels them.
_PCI_VENDOR = {"nvidia": "10de", "amd": "1002"}


@dataclass(frozen=True, slots=True)
class FleetCluster:
    """The objects of a generated cluster, without any allocations."""

    nodes: tuple[Node, ...]
    slices: tuple[ResourceSlice, ...]
    classes: tuple[DeviceClass, ...]


def cluster_of(machines: Iterable[FleetMachine], kube: str = DEFAULT_RELEASE) -> FleetCluster:
    """Return the cluster of these machines, with the DeviceClasses of their vendors.

    >>> from allotment.fleet.description import parse_fleet
    >>> [c.metadata.name for c in cluster_of(parse_fleet(["mi300x-8x-oam"])).classes]
    ['gpu.amd.com']
    """
    listed = tuple(machines)
    return FleetCluster(
        nodes=tuple(node_of(machine) for machine in listed),
        slices=tuple(slice_ for m in listed for slice_ in slices_of(m.hardware, m.mode, m.node, kube)),
        classes=classes_of(listed),
    )


def classes_of(machines: Iterable[FleetMachine]) -> tuple[DeviceClass, ...]:
    """Return the DeviceClasses that the charts of these machines' drivers install."""
    listed = tuple(machines)
    vendors = dict.fromkeys(machine.hardware.accelerator.vendor for machine in listed)
    auto = any(isinstance(machine.mode, AutoPartition) for machine in listed)
    return tuple(device_class for vendor in vendors for device_class in CLASSES[vendor]) + (
        (AMD_WHOLE_GPU,) if auto else ()
    )


def node_of(machine: FleetMachine) -> Node:
    """Return the node of a machine, with the labels that the kubelet and feature discovery set."""
    labels = {
        "kubernetes.io/arch": "amd64",
        HOSTNAME_LABEL: machine.node,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine.hardware.id,
    }
    vendor = _PCI_VENDOR.get(machine.hardware.accelerator.vendor)  # example hardware has no PCI address
    if vendor is not None:
        labels[f"feature.node.kubernetes.io/pci-{vendor}.present"] = "true"
    return Node(metadata=ObjectMeta(name=machine.node, labels=labels))
