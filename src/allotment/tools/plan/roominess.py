"""Whether a type has room for pods at all: cpu, memory, other resources and the number of pods, with both figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allotment.fleet.catalog.instance import Room
from allotment.placing.demand import Demand as Asked
from allotment.tools.plan.demand import Demand
from allotment.tools.plan.grouping import Item
from allotment.tools.plan.phrasing import AMOUNT, OTHER, Phrase

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Needed:
    """What an item takes of a node, in thousandths of a cpu and bytes, and what daemons take before it comes."""

    cpu_milli: int
    memory: int
    pods: int
    other: tuple[tuple[str, int], ...]
    daemon_cpu: int
    daemon_memory: int
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
        total.pop("cpu", 0), total.pop("memory", 0), len(item.pods),
        tuple((name, amount) for name, amount in sorted(total.items()) if name != "ephemeral-storage"),
        _sum(daemons, "cpu"), _sum(daemons, "memory"), len(daemons),
    )  # fmt: skip


def _sum(asked: list[Asked], name: str) -> int:
    return sum(_requests(one).get(name, 0) for one in asked)


def _requests(asked: Asked) -> Mapping[str, int]:
    return asked.requests


def against_room(need: Needed, room: Room) -> Phrase | None:
    """The first thing that a node of this size has too little of; None if an item fits."""
    cpu = room.cpu_milli - need.daemon_cpu
    if need.cpu_milli > cpu:
        text = f"{_cores(cpu)} CPU for pods, {_cores(need.cpu_milli)} asked"
        return Phrase("resources", text, AMOUNT, need.cpu_milli / max(cpu, 1) - 1)
    memory = room.memory_mib * _MIB - need.daemon_memory
    if need.memory > memory:
        text = f"{_amount(memory)} of memory for pods, {_amount(need.memory)} asked"
        return Phrase("resources", text, AMOUNT, need.memory / max(memory, 1) - 1)
    if need.pods > room.pods - need.daemons:
        text = f"room for {room.pods - need.daemons} pods, {need.pods} together asked"
        return Phrase("resources", text, AMOUNT, float(need.pods))
    if need.other:
        name, amount = need.other[0]
        return Phrase("resources", f"no {name} on a new node, {amount} asked", OTHER)
    return None


def most_by_room(need: Needed, room: Room) -> int:
    """How many items a node of this size has room for."""
    found = (room.pods - need.daemons) // max(need.pods, 1)
    if need.cpu_milli:
        found = min(found, (room.cpu_milli - need.daemon_cpu) // need.cpu_milli)
    if need.memory:
        found = min(found, (room.memory_mib * _MIB - need.daemon_memory) // need.memory)
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
