"""Which items may not be on one node together, whatever room it has: pods that keep apart, and ports of the host."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from allotment.model.core import HOSTNAME_LABEL
from allotment.node_fit.filters.inter_pod_affinity import meant
from allotment.tools.plan.pending_pods.demand import Demand, Waiting
from allotment.tools.plan.pending_pods.grouping import Item, Kind


def conflicts(demand: Demand, kinds: Sequence[Kind]) -> dict[int, frozenset[int]]:
    """For each kind those that may not be on a node with it; its own number where there may be one item only."""
    particular = [k for k, kind in enumerate(kinds) if any(p.asked.anti_affinity or p.asked.ports for p in _pods(kind))]
    found: dict[int, set[int]] = {}
    for one in particular:
        for other in range(len(kinds)):
            if _clash(demand, kinds[one].model, kinds[other].model):
                found.setdefault(one, set()).add(other)
                found.setdefault(other, set()).add(one)
    return {kind: frozenset(others) for kind, others in found.items()}


def clashes_inside(demand: Demand, item: Item) -> bool:
    """Whether pods that must be together keep apart."""
    pods = item.pods
    if len(pods) < 2 or not any(pod.asked.anti_affinity or pod.asked.ports for pod in pods):
        return False
    return any(
        _apart(demand, a, b) or _apart(demand, b, a) or _ports(a, b) for i, a in enumerate(pods) for b in pods[i + 1 :]
    )


def is_alone(demand: Demand, item: Item) -> bool:
    """Whether no two items like this can be on one host, whatever else is true of it."""
    return any(_apart(demand, a, b, (HOSTNAME_LABEL,)) or _ports(a, b) for a in item.pods for b in item.pods)


def _pods(kind: Kind) -> tuple[Waiting, ...]:
    return kind.model.pods


def _clash(demand: Demand, one: Item, other: Item) -> bool:
    return any(_apart(demand, a, b) or _apart(demand, b, a) or _ports(a, b) for a in one.pods for b in other.pods)


def _apart(demand: Demand, pod: Waiting, other: Waiting, keys: Collection[str] = ()) -> bool:
    """Whether a pod wants the other elsewhere; which key it names does not matter, for one node has one zone.

    ``keys``: those that matter all the same.
    """
    return any(
        (not keys or neighbour.term.topology_key in keys)
        and meant(neighbour.term, pod.resident, demand.namespaces)(other.resident)
        for neighbour in pod.asked.anti_affinity
    )


def _ports(pod: Waiting, other: Waiting) -> bool:
    return any(wanted.clashes(held) for wanted in pod.asked.ports for held in other.asked.ports)


def most_each(kinds: Sequence[Kind]) -> tuple[int | None, ...]:
    """How many items of each kind one node should have at most so that the spread over hosts stays even.

    With no node of the spread left empty more would be allowed; nobody can rely on that before all nodes are there.
    """
    return tuple(_most(kind.model) for kind in kinds)


def _most(item: Item) -> int | None:
    skews = [
        constraint.max_skew
        for pod in item.pods
        for constraint in pod.asked.spread
        if constraint.topology_key == HOSTNAME_LABEL and constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    return min(skews) if skews else None
