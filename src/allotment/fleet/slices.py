"""ResourceSlices of a machine: one pool per node, split to the limits of the API.

The index in a slice's name determines the order in which the scheduler reads the slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from allotment.fleet import amd, example, nvidia
from allotment.fleet.errors import FleetError
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import AmdMode, ExampleMode, Mode
from allotment.fleet.splitting import split
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.model.meta import ObjectMeta
from allotment.model.releases import RELEASES
from allotment.model.resource import CounterSet, Device, ResourcePool, ResourceSlice, ResourceSliceSpec

_Groups: TypeAlias = tuple[tuple[Device, ...], ...]


def slices_of(machine: Hardware, mode: Mode, node: str, kube: str = DEFAULT_RELEASE) -> tuple[ResourceSlice, ...]:
    """Return the slices that the driver on ``node`` publishes, in the form that Kubernetes ``kube`` accepts.

    >>> from allotment.fleet.hardware import hardware
    >>> from allotment.fleet.modes import parse_mode
    >>> t4 = hardware("t4-4x-pcie")
    >>> [device.name for device in slices_of(t4, parse_mode("", t4), "n1")[0].spec.devices]
    ['gpu-0', 'gpu-1', 'gpu-2', 'gpu-3']
    """
    if kube not in RELEASES:
        raise FleetError(f"Kubernetes release: expected one of {', '.join(RELEASES)}, found {kube!r}")
    offered = _offered(machine, mode, node)
    return tuple(slice_ for each in offered for slice_ in _slices(*each, node=node, features=Features(kube)))


def _slices(
    driver: str, groups: _Groups, counters: tuple[CounterSet, ...], *, node: str, features: Features
) -> Iterator[ResourceSlice]:
    parts = split(groups, counters, features)
    pool = ResourcePool(name=node, generation=1, resource_slice_count=len(parts))
    for index, part in enumerate(parts):
        yield ResourceSlice(
            metadata=ObjectMeta(name=f"{index:05x}-{driver}-{node}"),
            spec=ResourceSliceSpec(
                driver=driver, node_name=node, pool=pool,
                devices=part.devices or None, shared_counters=part.counters or None,
            ),
        )  # fmt: skip


def _offered(machine: Hardware, mode: Mode, node: str) -> tuple[tuple[str, _Groups, tuple[CounterSet, ...]], ...]:
    """Return the driver, device groups and counter sets of every driver on the machine."""
    if isinstance(mode, ExampleMode):
        return example.offerings(node, len(machine.slots), mode)
    if isinstance(mode, AmdMode):
        return ((amd.DRIVER, *amd.offering_of(machine, node, mode)),)
    return ((nvidia.DRIVER, *nvidia.offering_of(machine, node, mode)),)
