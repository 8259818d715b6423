"""The plan of a claim as stored on disk: all that unpreparing needs, with identifiers that survive a restart."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from allotment.decoding import decodable
from allotment.model.trees import Tree


class PlannedDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device of a claim. ``pci``: its GPU.

    With partitioning on demand: the required modes, and in ``slots`` the indexes of the claim's partitions in the GPU;
    a device with admin access has none. ``number``: the GPU's number in device names. ``iommu_fd``: a virtual machine
    gets the device through IOMMUFD where the host supports it.
    """

    pool: str
    device: str
    pci: str
    share_id: str = ""
    compute: str = ""
    memory: str = ""
    number: int = -1
    slots: tuple[int, ...] = ()
    iommu_fd: bool = False


class Plan(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """``initial_modes``: the compute and memory mode of every GPU before any claim, which unpreparing restores.

    ``initial_drivers``: the PCI functions for a virtual machine, with the kernel driver that each had before.
    """

    devices: tuple[PlannedDevice, ...] = msgspec.field(name="held")
    initial_modes: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict, name="before")
    initial_drivers: dict[str, str] = msgspec.field(default_factory=dict, name="bound")

    def to_tree(self) -> Tree:
        """The plan as JSON."""
        tree: Tree = msgspec.json.decode(msgspec.json.encode(self))
        return tree

    @property
    def partitioned_devices(self) -> tuple[PlannedDevice, ...]:
        """The devices that have partitions."""
        return tuple(device for device in self.devices if device.slots)


def decode(tree: Tree) -> Plan:
    """Decode a plan; unknown fields of newer versions are ignored. Raises msgspec.ValidationError."""
    return msgspec.convert(tree, decodable(Plan))


def decode_known(trees: Iterable[Tree]) -> tuple[Plan, ...]:
    """Decode plans, without those of unknown versions."""
    plans = []
    for tree in trees:
        with suppress(msgspec.ValidationError):
            plans.append(decode(tree))
    return tuple(plans)


def decode_partitioned(trees: Iterable[Tree]) -> tuple[Plan, ...]:
    """Decode the plans that have partitions."""
    return tuple(plan for plan in decode_known(trees) if plan.partitioned_devices)
