"""Whether the node has room: number of pods, cpu, memory, and whatever else it counts."""

from __future__ import annotations

from collections.abc import Set

from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import Machine
from allotment.node_fit.pod_requirements import Demand

#: The order in which Kubernetes looks; the rest follows by name.
_FIRST = {"cpu": 0, "memory": 1, "ephemeral-storage": 2}


def room(demand: Demand, machine: Machine, by_devices: Set[str] = frozenset()) -> Refusal | None:
    """``by_devices`` are extended resources that DeviceClasses serve where the node itself has none."""
    texts: list[str] = []
    hopeless = False
    if len(machine.pods) + 1 > machine.pods_allowed:
        texts.append("Too many pods")
    free = machine.free
    for name, wanted in demand.requests.items():
        if wanted <= free.get(name, 0):
            continue
        whole = machine.allocatable.get(name, 0)
        if name in by_devices and whole <= 0:
            continue
        texts.append(f"Insufficient {name}")
        hopeless = hopeless or wanted > whole
    if not texts:
        return None
    if len(texts) > 1:
        texts.sort(key=lambda text: (_FIRST.get(text.removeprefix("Insufficient "), 3), text))
    return Refusal(tuple(texts), preemption_may_help=not hopeless, cause="resources")
