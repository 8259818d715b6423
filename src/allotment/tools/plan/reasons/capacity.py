"""Whether a type has room for pods at all: cpu, memory, disk, other resources, how many pods; with both figures."""

from __future__ import annotations

from dataclasses import dataclass

from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import InstanceType, Room
from allotment.node_fit.pod_requirements import Demand as Asked
from allotment.tools.plan.pending_pods.demand import Demand
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.reasons.refusal_text import AMOUNT, OTHER, Phrase

_MIB = 1 << 20
_DISK = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class Needed:
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


def needed(item: Item, demand: Demand) -> Needed:
    """What the pods of an item ask together. What devices serve is none of the node's own."""
    total: dict[str, int] = {}
    for pod in item.pods:
        for name, amount in pod.asked.requests.items():
            if name not in pod.by_devices:
                total[name] = total.get(name, 0) + amount
    daemons = [asked for asked, _ in demand.daemons]
    return Needed(
        total.pop("cpu", 0), total.pop("memory", 0), total.pop(_DISK, 0), len(item.pods), tuple(sorted(total)),
        _sum(daemons, "cpu"), _sum(daemons, "memory"), _sum(daemons, _DISK), len(daemons),
    )  # fmt: skip


def _sum(asked: list[Asked], name: str) -> int:
    return sum(one.requests.get(name, 0) for one in asked)


def against_room(need: Needed, instance: InstanceType, room: Room) -> Phrase | None:
    """The first thing that a node of this type has too little of; None if an item fits."""
    if need.other:
        return Phrase("resources", f"nothing publishes {need.other[0]}", OTHER)
    cpu = room.cpu_milli - need.daemon_cpu
    if need.cpu_milli > cpu:
        text = f"{_cores(cpu)} CPU for pods, {_cores(need.cpu_milli)} asked"
        return Phrase("resources", text, AMOUNT, need.cpu_milli / max(cpu, 1) - 1)
    memory = room.memory_mib * _MIB - need.daemon_memory
    if need.memory > memory:
        text = f"{_amount(memory)} of memory for pods, {_amount(need.memory)} asked"
        return Phrase("resources", text, AMOUNT, need.memory / max(memory, 1) - 1)
    disk = disk_of(instance).mib * _MIB - need.daemon_disk
    if need.disk > disk:
        text = f"{_amount(disk)} of disk for pods, {_amount(need.disk)} asked (ephemeral-storage)"
        return Phrase("resources", text, AMOUNT, need.disk / max(disk, 1) - 1)
    if need.pods > room.pods - need.daemons:
        text = f"room for {room.pods - need.daemons} pods, {need.pods} together asked"
        return Phrase("resources", text, AMOUNT, float(need.pods))
    return None


def most_by_room(need: Needed, instance: InstanceType, room: Room) -> int:
    """How many items a node of this size has room for."""
    found = (room.pods - need.daemons) // max(need.pods, 1)
    if need.cpu_milli:
        found = min(found, (room.cpu_milli - need.daemon_cpu) // need.cpu_milli)
    if need.memory:
        found = min(found, (room.memory_mib * _MIB - need.daemon_memory) // need.memory)
    if need.disk:
        found = min(found, (disk_of(instance).mib * _MIB - need.daemon_disk) // need.disk)
    return found


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
