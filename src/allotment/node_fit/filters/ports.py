"""Whether the pod's host ports are free on the node."""

from __future__ import annotations

from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import Machine
from allotment.node_fit.pod_requirements import Demand

_TAKEN = Refusal(
    ("node(s) didn't have free ports for the requested pod ports",), preemption_may_help=True, cause="ports"
)


def ports(demand: Demand, machine: Machine) -> Refusal | None:
    """A port on all addresses clashes with that port on any."""
    if not demand.ports or not machine.ports:
        return None
    if any(wanted.clashes(held) for wanted in demand.ports for held in machine.ports):
        return _TAKEN
    return None
