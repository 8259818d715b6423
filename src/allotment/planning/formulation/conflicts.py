"""Conflicts between items on one node, independent of its capacity: anti-affinity, host ports and topology spread."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from allotment.model.core import HOSTNAME_LABEL
from allotment.node_fit.filters.inter_pod_affinity import term_matcher
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod
from allotment.planning.pending_pods.grouping import Item, ItemKind


def conflicts(demand: ClusterDemand, kinds: Sequence[ItemKind]) -> dict[int, frozenset[int]]:
    """By kind number, the kinds that cannot share a node with it; its own number if a node can have only one item."""
    constrained = [
        k
        for k, kind in enumerate(kinds)
        if any(p.requirements.anti_affinity or p.requirements.ports for p in _pods(kind))
    ]
    found: dict[int, set[int]] = {}
    for kind in constrained:
        for other in range(len(kinds)):
            if _clash(demand, kinds[kind].representative, kinds[other].representative):
                found.setdefault(kind, set()).add(other)
                found.setdefault(other, set()).add(kind)
    return {kind: frozenset(others) for kind, others in found.items()}


def clashes_inside(demand: ClusterDemand, item: Item) -> bool:
    """Whether pods that must be on one node exclude each other."""
    pods = item.pods
    if len(pods) < 2 or not any(pod.requirements.anti_affinity or pod.requirements.ports for pod in pods):
        return False
    return any(
        _excludes(demand, a, b) or _excludes(demand, b, a) or _ports_clash(a, b)
        for i, a in enumerate(pods)
        for b in pods[i + 1 :]
    )


def is_one_per_host(demand: ClusterDemand, item: Item) -> bool:
    """Whether two items like this can never be on one host."""
    return any(_excludes(demand, a, b, (HOSTNAME_LABEL,)) or _ports_clash(a, b) for a in item.pods for b in item.pods)


def _pods(kind: ItemKind) -> tuple[PendingPod, ...]:
    return kind.representative.pods


def _clash(demand: ClusterDemand, kind: Item, other: Item) -> bool:
    return any(
        _excludes(demand, a, b) or _excludes(demand, b, a) or _ports_clash(a, b) for a in kind.pods for b in other.pods
    )


def _excludes(demand: ClusterDemand, pod: PendingPod, other: PendingPod, keys: Collection[str] = ()) -> bool:
    """Whether a pod's anti-affinity excludes the other pod from its node.

    The topology key does not matter, as a node has one value of each, unless ``keys`` limits the terms to some keys.
    """
    return any(
        (not keys or neighbour.term.topology_key in keys)
        and term_matcher(neighbour.term, pod.resident, demand.namespaces)(other.resident)
        for neighbour in pod.requirements.anti_affinity
    )


def _ports_clash(pod: PendingPod, other: PendingPod) -> bool:
    return any(wanted.conflicts_with(held) for wanted in pod.requirements.ports for held in other.requirements.ports)


def max_items_per_host(kinds: Sequence[ItemKind]) -> tuple[int | None, ...]:
    """The maximum number of items of each kind on one node under its topology spread over hosts.

    The constraint allows more once no node is empty, but that is certain only when all nodes exist.
    """
    return tuple(_min_skew(kind.representative) for kind in kinds)


def _min_skew(item: Item) -> int | None:
    skews = [
        constraint.max_skew
        for pod in item.pods
        for constraint in pod.requirements.spread
        if constraint.topology_key == HOSTNAME_LABEL and constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    return min(skews) if skews else None
