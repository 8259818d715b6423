"""Compares the resources that an item requests (cpu, memory, disk, pods, others) with the capacity of a type."""

from __future__ import annotations

from dataclasses import dataclass

from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import InstanceType, NodeCapacity
from allotment.node_fit.pod_requirements import PodRequirements
from allotment.planning.pending_pods.demand import ClusterDemand
from allotment.planning.pending_pods.grouping import Item
from allotment.planning.reasons.refusal_text import AMOUNT, OTHER, Shortfall

_MIB = 1 << 20
_DISK = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class ItemRequirements:
    """The resources that an item and the DaemonSet pods of a node request; memory and disk in bytes."""

    cpu_milli: int
    memory: int
    disk: int
    pods: int
    other: tuple[str, ...]
    """Resources that new nodes do not have."""
    daemon_cpu: int
    daemon_memory: int
    daemon_disk: int
    daemons: int


def item_requirements(item: Item, demand: ClusterDemand) -> ItemRequirements:
    """The total requests of an item's pods, without extended resources that devices provide."""
    total: dict[str, int] = {}
    for pod in item.pods:
        for name, amount in pod.requirements.requests.items():
            if name not in pod.device_resources:
                total[name] = total.get(name, 0) + amount
    daemons = [requirements for requirements, _ in demand.daemons]
    return ItemRequirements(
        total.pop("cpu", 0), total.pop("memory", 0), total.pop(_DISK, 0), len(item.pods), tuple(sorted(total)),
        _sum(daemons, "cpu"), _sum(daemons, "memory"), _sum(daemons, _DISK), len(daemons),
    )  # fmt: skip


def _sum(requirements: list[PodRequirements], name: str) -> int:
    return sum(each.requests.get(name, 0) for each in requirements)


def capacity_shortfall(required: ItemRequirements, instance: InstanceType, room: NodeCapacity) -> Shortfall | None:
    """The first resource of which a node of the type has too little; None if an item fits."""
    if required.other:
        return Shortfall("resources", f"no node publishes {required.other[0]}", OTHER)
    cpu = room.cpu_milli - required.daemon_cpu
    if required.cpu_milli > cpu:
        text = f"{_cores(cpu)} CPU for pods; {_cores(required.cpu_milli)} requested"
        return Shortfall("resources", text, AMOUNT, required.cpu_milli / max(cpu, 1) - 1)
    memory = room.memory_mib * _MIB - required.daemon_memory
    if required.memory > memory:
        text = f"{_amount(memory)} memory for pods; {_amount(required.memory)} requested"
        return Shortfall("resources", text, AMOUNT, required.memory / max(memory, 1) - 1)
    disk = disk_of(instance).mib * _MIB - required.daemon_disk
    if required.disk > disk:
        text = f"{_amount(disk)} ephemeral-storage for pods; {_amount(required.disk)} requested"
        return Shortfall("resources", text, AMOUNT, required.disk / max(disk, 1) - 1)
    if required.pods > room.pods - required.daemons:
        text = f"at most {room.pods - required.daemons} pods per node; {required.pods} requested on the same node"
        return Shortfall("resources", text, AMOUNT, float(required.pods))
    return None


def max_items(required: ItemRequirements, instance: InstanceType, room: NodeCapacity) -> int:
    """The maximum number of items on a node of the type, by resources."""
    count = (room.pods - required.daemons) // max(required.pods, 1)
    if required.cpu_milli:
        count = min(count, (room.cpu_milli - required.daemon_cpu) // required.cpu_milli)
    if required.memory:
        count = min(count, (room.memory_mib * _MIB - required.daemon_memory) // required.memory)
    if required.disk:
        count = min(count, (disk_of(instance).mib * _MIB - required.daemon_disk) // required.disk)
    return count


def _cores(milli: int) -> str:
    """Millicores as a number of CPUs.

    >>> _cores(3920), _cores(4000)
    ('3.92', '4')
    """
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def _amount(number: int) -> str:
    """Bytes as a quantity in Mi or Gi.

    >>> _amount(16 << 30), _amount(15_185_477_632)
    ('16Gi', '14.1Gi')
    """
    if number < 1 << 30:
        return f"{number >> 20}Mi"
    return f"{number / (1 << 30):.1f}".removesuffix(".0") + "Gi"
