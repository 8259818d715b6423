"""Groups the equal machines of a plan: same type, price and zone, with the same workloads.

A plan of a hundred machines has a dozen groups; the CLI prints one line for each, and charts draw one bar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from allotment.planning.reasons.machine_layout import MachineLayout, layout_of
from allotment.planning.report import PlannedMachine


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """Equal machines, and the layout of the first."""

    machines: tuple[PlannedMachine, ...]
    layout: MachineLayout

    @property
    def first(self) -> PlannedMachine:
        """The machine that represents the group."""
        return self.machines[0]

    @property
    def total(self) -> Decimal:
        """The price of all machines in USD per hour."""
        return sum((machine.usd_per_hour for machine in self.machines), Decimal(0))


def group_machines(machines: Iterable[PlannedMachine]) -> tuple[MachineGroup, ...]:
    """The groups of machines by total price, the highest first; groups with equal prices in the plan's order."""
    groups: dict[Hashable, list[PlannedMachine]] = {}
    layouts: dict[Hashable, MachineLayout] = {}
    for machine in machines:
        layout = layout_of(machine)
        key = _key(machine, layout)
        layouts.setdefault(key, layout)
        groups.setdefault(key, []).append(machine)
    result = [MachineGroup(tuple(members), layouts[key]) for key, members in groups.items()]
    return tuple(sorted(result, key=lambda group: -group.total))


def _key(machine: PlannedMachine, layout: MachineLayout) -> Hashable:
    """The key of equal machines: type, zone, price, workloads, and the allocated parts of its GPUs.

    The order of the GPUs does not matter.
    """
    gpus = Counter(
        tuple((part.size, part.kind, part.owner, len(part.pods)) for part in gpu.parts) for gpu in layout.gpus
    )
    workloads = Counter((placement.owner, placement.cpu_milli, placement.memory) for placement in machine.placements)
    return (
        machine.instance, machine.form, machine.zone, machine.capacity_type, machine.usd_per_hour, machine.cpu_milli,
        machine.memory, frozenset(gpus.items()), frozenset(workloads.items()),
    )  # fmt: skip
