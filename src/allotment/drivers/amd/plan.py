"""What preparing a claim will do, as it is kept on disk: everything that undoing needs, by what survives a restart."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec

from allotment.model.trees import Tree


class PlannedDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device of a claim. ``pci``: its GPU.

    Where the driver partitions by itself: the modes that it needs, and which of the GPU's parts are the claim's,
    counted from the GPU's own. ``number``: of the GPU in names of devices. An administrator's holds no parts.
    ``iommu_fd``: a virtual machine gets it by the newer interface where there is one.
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
    """``before``: compute and memory mode of every GPU when nobody held one; what they go back to.

    ``bound``: PCI functions that go to a virtual machine, and the kernel drivers that have them otherwise.
    """

    devices: tuple[PlannedDevice, ...]
    initial_modes: dict[str, tuple[str, str]] = {}
    initial_drivers: dict[str, str] = {}

    def to_tree(self) -> Tree:
        """As JSON has it."""
        tree: Tree = msgspec.json.decode(msgspec.json.encode(self))
        return tree

    @property
    def partitioned_devices(self) -> tuple[PlannedDevice, ...]:
        """The devices of which it holds parts."""
        return tuple(device for device in self.devices if device.slots)


def decode(tree: Tree) -> Plan:
    """A plan from disk; fields of newer versions are left alone."""
    return msgspec.convert(tree, Plan)


def decode_known(trees: Iterable[Tree]) -> tuple[Plan, ...]:
    """These plans, without those that no version that we know has written."""
    plans = []
    for tree in trees:
        with suppress(msgspec.ValidationError):
            plans.append(decode(tree))
    return tuple(plans)


def decode_partitioned(trees: Iterable[Tree]) -> tuple[Plan, ...]:
    """The plans among these that hold parts of GPUs."""
    return tuple(plan for plan in decode_known(trees) if plan.partitioned_devices)
