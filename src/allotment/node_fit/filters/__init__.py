"""Which nodes a pod may use: plain functions, in the order in which Kubernetes asks them.

A filter here looks at one node alone, so that its answers are kept until that node changes. What depends on pods
elsewhere (`spread`, `neighbours`) answers for all nodes at once, and devices come last (`placing.devices`).
"""

from __future__ import annotations

from collections.abc import Callable, Set

from allotment.node_fit.filters.node_eligibility import node_affinity, schedulable, taints
from allotment.node_fit.filters.ports import ports
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.resources import room
from allotment.node_fit.nodes import Machine
from allotment.node_fit.pod_requirements import Demand

Filter = Callable[[Demand, Machine], Refusal | None]

FILTERS: tuple[Filter, ...] = (schedulable, taints, node_affinity, ports)


def judge(demand: Demand, machine: Machine, by_devices: Set[str] = frozenset()) -> Refusal | None:
    """The first refusal, or None if the node would do as far as it alone is concerned."""
    for filter in FILTERS:
        refusal = filter(demand, machine)
        if refusal is not None:
            return refusal
    return room(demand, machine, by_devices)
