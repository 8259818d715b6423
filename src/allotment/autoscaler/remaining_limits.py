"""The limits for new machines: the limits for all machines, less the existing ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fnmatch import fnmatchcase

from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine


def remaining_limits(limits: PlanLimits, machines_owned: Iterable[PlannedMachine]) -> PlanLimits:
    """Return the limits less the machines of the autoscaler, in flight or running.

    >>> remaining_limits(PlanLimits(max_machines=3, budget=Decimal(5)), ()).max_machines
    3
    """
    machines = tuple(machines_owned)
    spent = sum((machine.usd_per_hour for machine in machines), Decimal(0))
    return replace(
        limits,
        budget=None if limits.budget is None else max(limits.budget - spent, Decimal(0)),
        max_machines=None if limits.max_machines is None else max(limits.max_machines - len(machines), 0),
        existing_machines=(len(machines), sum(machine.capacity_type == "spot" for machine in machines)),
        max_by_pattern=tuple(
            (pattern, max(most - _of(pattern, machines), 0)) for pattern, most in limits.max_by_pattern
        ),
    )


def _of(pattern: str, machines: tuple[PlannedMachine, ...]) -> int:
    return sum(fnmatchcase(machine.instance, pattern) for machine in machines)
