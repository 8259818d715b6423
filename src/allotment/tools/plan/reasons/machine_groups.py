"""Machines of a plan that are alike: bought at the same terms, for the same.

A plan of a hundred machines has a dozen sorts of them; a screen has a line for each sort, and a picture a bar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from allotment.tools.plan.reasons.machine_layout import MachineLayout, layout_of
from allotment.tools.plan.report import PlannedMachine


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """Machines of one sort, and the inside of the first."""

    machines: tuple[PlannedMachine, ...]
    layout: MachineLayout

    @property
    def first(self) -> PlannedMachine:
        """The one that stands for all."""
        return self.machines[0]

    @property
    def total(self) -> Decimal:
        """USD per hour of all of them."""
        return sum((machine.usd_per_hour for machine in self.machines), Decimal(0))


def group_machines(machines: Iterable[PlannedMachine]) -> tuple[MachineGroup, ...]:
    """The sorts of machines, the dearest together first; of equal cost in the plan's order."""
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
    """What machines of one sort have in common: terms, workloads, and how much of how many GPUs is given to whom.

    Which of its GPUs it is does not tell machines apart.
    """
    gpus = Counter(
        tuple((part.size, part.kind, part.owner, len(part.pods)) for part in gpu.parts) for gpu in layout.gpus
    )
    seats = Counter((seat.owner, seat.cpu_milli, seat.memory) for seat in machine.seats)
    return (
        machine.instance, machine.form, machine.zone, machine.capacity_type, machine.usd_per_hour, machine.cpu_milli,
        machine.memory, frozenset(gpus.items()), frozenset(seats.items()),
    )  # fmt: skip
