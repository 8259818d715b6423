"""Which nodes a pod may use: plain functions, in the order in which Kubernetes asks them.

A filter here looks at one node alone, so that its answers are kept until that node changes. What depends on pods
elsewhere (`spread`, `neighbours`) answers for all nodes at once, and devices come last (`placing.devices`).
"""

from __future__ import annotations

from collections.abc import Callable, Set

from allotment.placing.demand import Demand
from allotment.placing.filters.admission import node_affinity, schedulable, taints
from allotment.placing.filters.ports import ports
from allotment.placing.filters.refusal import Refusal
from allotment.placing.filters.resources import room
from allotment.placing.machines import Machine

Filter = Callable[[Demand, Machine], Refusal | None]

FILTERS: tuple[Filter, ...] = (schedulable, taints, node_affinity, ports)


def judge(demand: Demand, machine: Machine, by_devices: Set[str] = frozenset()) -> Refusal | None:
    """The first refusal, or None if the node would do as far as it alone is concerned."""
    for filter in FILTERS:
        refusal = filter(demand, machine)
        if refusal is not None:
            return refusal
    return room(demand, machine, by_devices)
