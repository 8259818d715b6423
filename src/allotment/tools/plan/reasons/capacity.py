"""Whether a type has room for pods at all: cpu, memory, disk, other resources, how many pods; with both figures."""

from __future__ import annotations

from dataclasses import dataclass

from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import InstanceType, Room
from allotment.node_fit.pod_requirements import Demand
from allotment.tools.plan.pending_pods.demand import ClusterDemand
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.reasons.refusal_text import AMOUNT, OTHER, Shortfall

_MIB = 1 << 20
_DISK = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class ItemRequirements:
    """What an item takes of a node, in thousandths of a cpu and bytes, and what daemons take before it comes."""

    cpu_milli: int
    memory: int
    disk: int
    pods: int
    other: tuple[str, ...]
    """Resources that no new node has."""
    daemon_cpu: int
    daemon_memory: int
    daemon_disk: int
    daemons: int


def item_requirements(item: Item, demand: ClusterDemand) -> ItemRequirements:
    """What the pods of an item ask together. What devices serve is none of the node's own."""
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


def _sum(requirements: list[Demand], name: str) -> int:
    return sum(each.requests.get(name, 0) for each in requirements)


def capacity_shortfall(required: ItemRequirements, instance: InstanceType, room: Room) -> Shortfall | None:
    """The first thing that a node of this type has too little of; None if an item fits."""
    if required.other:
        return Shortfall("resources", f"nothing publishes {required.other[0]}", OTHER)
    cpu = room.cpu_milli - required.daemon_cpu
    if required.cpu_milli > cpu:
        text = f"{_cores(cpu)} CPU for pods, {_cores(required.cpu_milli)} asked"
        return Shortfall("resources", text, AMOUNT, required.cpu_milli / max(cpu, 1) - 1)
    memory = room.memory_mib * _MIB - required.daemon_memory
    if required.memory > memory:
        text = f"{_amount(memory)} of memory for pods, {_amount(required.memory)} asked"
        return Shortfall("resources", text, AMOUNT, required.memory / max(memory, 1) - 1)
    disk = disk_of(instance).mib * _MIB - required.daemon_disk
    if required.disk > disk:
        text = f"{_amount(disk)} of disk for pods, {_amount(required.disk)} asked (ephemeral-storage)"
        return Shortfall("resources", text, AMOUNT, required.disk / max(disk, 1) - 1)
    if required.pods > room.pods - required.daemons:
        text = f"room for {room.pods - required.daemons} pods, {required.pods} together asked"
        return Shortfall("resources", text, AMOUNT, float(required.pods))
    return None


def max_items(required: ItemRequirements, instance: InstanceType, room: Room) -> int:
    """How many items a node of this size has room for."""
    count = (room.pods - required.daemons) // max(required.pods, 1)
    if required.cpu_milli:
        count = min(count, (room.cpu_milli - required.daemon_cpu) // required.cpu_milli)
    if required.memory:
        count = min(count, (room.memory_mib * _MIB - required.daemon_memory) // required.memory)
    if required.disk:
        count = min(count, (disk_of(instance).mib * _MIB - required.daemon_disk) // required.disk)
    return count


def _cores(milli: int) -> str:
    """Thousandths of a cpu as people count cpus.

    >>> _cores(3920), _cores(4000)
    ('3.92', '4')
    """
    return f"{milli / 1000:.3f}".rstrip("0").rstrip(".")


def _amount(number: int) -> str:
    """Bytes in the largest unit that they fill.

    >>> _amount(16 << 30), _amount(15_185_477_632)
    ('16Gi', '14.1Gi')
    """
    if number < 1 << 30:
        return f"{number >> 20}Mi"
    return f"{number / (1 << 30):.1f}".removesuffix(".0") + "Gi"
