"""Topology-aware placement (KEP-5732): the sets of nodes on which a group may run, and which of them is best.

A group with a topology constraint runs on nodes that share one value of a label. Among the placements on which it can
be scheduled, the one with the most pods and the most used resources wins, so that larger gaps remain for other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from allotment.node_fit.node_table import node_indexes
from allotment.node_fit.nodes import NodeCache
from allotment.node_fit.pod_requirements import PodRequirements


class Placement(NamedTuple):
    """A set of nodes, as a bit mask of their indexes."""

    name: str
    nodes: int


class UnknownDomain(ValueError):
    """Raised if the placed pods of a group have no common topology domain. The text is Kubernetes'."""


def placements(
    topology_key: str, within: int, machines: NodeCache, placed_on: Iterable[tuple[str, str]]
) -> list[Placement]:
    """Return the placements of a group within a bit mask of nodes.

    ``placed_on``: its pods that have a node (key and node name); the group stays in their domain. Raises UnknownDomain.
    """
    if not topology_key:
        return [Placement("", within)]
    required = _domain(topology_key, machines, placed_on)
    domains: dict[str, int] = {}
    for machine in machines:
        value = machine.facts.labels.get(topology_key)
        if value is not None and within >> machine.index & 1 and required in (None, value):
            domains[value] = domains.get(value, 0) | 1 << machine.index
    return [Placement(value, nodes) for value, nodes in domains.items()]


def _domain(topology_key: str, machines: NodeCache, placed_on: Iterable[tuple[str, str]]) -> str | None:
    found: str | None = None
    for pod, node in placed_on:
        machine = machines.by_name.get(node)
        value = machine.facts.labels.get(topology_key) if machine is not None else None
        if value is None:
            raise UnknownDomain(
                f"cannot determine domain for already scheduled pods: no topology domain found for pod {pod}"
            )
        if found is not None and found != value:
            raise UnknownDomain(
                "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: "
                f"{found}, {value}"
            )
        found = value
    return found


class Candidate(NamedTuple):
    """A placement on which a group can be scheduled: the requirements of the pods that it would get."""

    placement: Placement
    pods: Sequence[PodRequirements]


def best(candidates: Sequence[Candidate], scheduled: int, machines: NodeCache) -> int:
    """Return the index of the best candidate, the first one among equals. ``scheduled``: pods that have a node."""
    if len(candidates) == 1:
        return 0
    counts = [scheduled + len(candidate.pods) for candidate in candidates]
    most = max(counts) or 1
    scores = [
        count * 100 // most + _used_share(candidate, machines)
        for count, candidate in zip(counts, candidates, strict=True)
    ]
    return scores.index(max(scores))


def _used_share(candidate: Candidate, machines: NodeCache) -> int:
    """Return the used percentage of cpu and memory of a placement's nodes, together with the pods; their average."""
    nodes = [m for index in node_indexes(candidate.placement.nodes) if (m := machines.at(index)) is not None]
    amounts: tuple[tuple[str, Callable[[PodRequirements], int], int], ...] = (
        ("cpu", lambda pod: pod.scored_cpu, sum(node.scored_cpu for node in nodes)),
        ("memory", lambda pod: pod.scored_memory, sum(node.scored_memory for node in nodes)),
    )
    shares: list[int] = []
    for name, requested_by, used in amounts:
        allocatable = sum(node.allocatable.get(name, 0) for node in nodes)
        if allocatable:
            requested = used + sum(map(requested_by, candidate.pods))
            shares.append(min(requested, allocatable) * 100 // allocatable)
    return sum(shares) // len(shares) if shares else 0
