"""How good a node would be, as far as it alone is concerned: more is better, each part on a scale of 0 to 100.

Least allocated and balanced (weight 1 each), preferred node affinity (2) and taints that would rather have no pods (3).
Kubernetes scales the last two by the best node of the moment; here the scale is fixed, so that a score holds until its
node changes. The order among nodes is the same.
"""

from __future__ import annotations

from allotment.node_fit.filters.node_eligibility import tolerates
from allotment.node_fit.nodes import Machine
from allotment.node_fit.pod_requirements import Demand, admits


def score(demand: Demand, machine: Machine) -> int:
    """The sum of all parts."""
    total = _allocation(demand, machine)
    if demand.preferences:
        total += 2 * _preferred(demand, machine)
    if machine.taints:
        total += 3 * _welcome(demand, machine)
    else:
        total += 300
    return total


def _allocation(demand: Demand, machine: Machine) -> int:
    """Least allocated plus balanced, over cpu and memory."""
    cpu, memory = machine.allocatable.get("cpu", 0), machine.allocatable.get("memory", 0)
    cpu_used, memory_used = machine.scored_cpu + demand.scored_cpu, machine.scored_memory + demand.scored_memory
    cpu_left = (cpu - cpu_used) * 100 // cpu if cpu and cpu_used <= cpu else 0
    memory_left = (memory - memory_used) * 100 // memory if memory and memory_used <= memory else 0
    apart = abs(cpu_left - memory_left) // 2
    return (cpu_left + memory_left) // 2 + 100 - apart


def _preferred(demand: Demand, machine: Machine) -> int:
    whole = sum(p.weight for p in demand.preferences)
    met = sum(p.weight for p in demand.preferences if admits(p.term, machine.facts))
    return 100 * met // whole if whole else 0


def _welcome(demand: Demand, machine: Machine) -> int:
    unwelcome = sum(
        1 for t in machine.taints if t.effect == "PreferNoSchedule" and not tolerates(demand.tolerations, t)
    )
    return 100 // (1 + unwelcome)
