"""Affinity between pods: near to some, away from others, and what those already there say of the one to come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from allotment.node_fit.assigned_pod import Resident
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import Labels, matcher, with_pod_keys
from allotment.node_fit.nodes import Machine, Machines
from allotment.node_fit.podspec import PodAffinityTerm
from allotment.node_fit.topology_counts import Tally

_NOT_NEAR = Refusal(("node(s) didn't match pod affinity rules",), cause="neighbours")
_TOO_NEAR = Refusal(("node(s) didn't match pod anti-affinity rules",), preemption_may_help=True, cause="neighbours")
_UNWANTED = Refusal(
    ("node(s) didn't satisfy existing pods anti-affinity rules",), preemption_may_help=True, cause="neighbours"
)

Namespaces = Mapping[str, Labels]
"""Labels of every namespace."""


def neighbours(pod: Resident, machines: Machines, namespaces: Namespaces) -> dict[int, Refusal]:
    """Nodes that are out because of other pods, by place."""
    demand = pod.demand
    refused: dict[int, Refusal] = {}
    if demand.affinity:
        for machine in _not_near(pod, machines, namespaces):
            refused[machine.place] = _NOT_NEAR
    for neighbour in demand.anti_affinity:
        tally = _tally((neighbour.term,), pod, machines, namespaces)
        taken = _values(neighbour.term.topology_key, tally.by_node, machines)
        _refuse(refused, _TOO_NEAR, neighbour.term.topology_key, taken, machines)
    for key, taken in _unwanted(pod, machines, namespaces).items():
        _refuse(refused, _UNWANTED, key, taken, machines)
    return refused


def neighbour_scores(
    pod: Resident, machines: Machines, namespaces: Namespaces, among: Iterable[Machine]
) -> dict[int, int]:
    """What pods would rather have: the pod's own wishes and those of pods that are there; 0 to 100 by place."""
    by_key: dict[str, dict[str, int]] = {}
    for neighbour in (*pod.demand.affinity_preferred, *pod.demand.anti_preferred):
        key = neighbour.term.topology_key
        values = by_key.setdefault(key, {})
        for node, count in _tally((neighbour.term,), pod, machines, namespaces).by_node.items():
            value = _value(machines, node, key)
            if value is not None:
                values[value] = values.get(value, 0) + neighbour.weight * count
    for resident, node in machines.neighbourly.values():
        for neighbour in (*resident.demand.affinity_preferred, *resident.demand.anti_preferred):
            key = neighbour.term.topology_key
            value = _value(machines, node, key)
            if value is not None and meant(neighbour.term, resident, namespaces)(pod):
                values = by_key.setdefault(key, {})
                values[value] = values.get(value, 0) + neighbour.weight
    if not by_key:
        return {}
    wished = {
        machine.place: sum(values.get(machine.facts.labels.get(key, ""), 0) for key, values in by_key.items())
        for machine in among
    }
    least, most = min(wished.values(), default=0), max(wished.values(), default=0)
    if least == most:
        return {}
    return {place: 100 * (wish - least) // (most - least) for place, wish in wished.items()}


def _not_near(pod: Resident, machines: Machines, namespaces: Namespaces) -> Iterable[Machine]:
    """Nodes that are not near the pods that the pod must be near. Only pods that satisfy all terms count."""
    terms = tuple(n.term for n in pod.demand.affinity)
    tally = _tally(terms, pod, machines, namespaces)
    # The first of a group of pods that want to be near each other has nobody to be near to yet.
    first = not tally.by_node and all(meant(term, pod, namespaces)(pod) for term in terms)
    near = [(term.topology_key, _values(term.topology_key, tally.by_node, machines)) for term in terms]
    for machine in machines:
        labels = machine.facts.labels
        if not all(key in labels and (first or labels[key] in values) for key, values in near):
            yield machine


def _unwanted(pod: Resident, machines: Machines, namespaces: Namespaces) -> dict[str, set[str]]:
    """Values of topology keys where a pod lives that does not want this one near."""
    found: dict[str, set[str]] = {}
    for resident, node in machines.neighbourly.values():
        for neighbour in resident.demand.anti_affinity:
            key = neighbour.term.topology_key
            value = _value(machines, node, key)
            if value is not None and meant(neighbour.term, resident, namespaces)(pod):
                found.setdefault(key, set()).add(value)
    return found


def _refuse(refused: dict[int, Refusal], why: Refusal, key: str, taken: set[str], machines: Machines) -> None:
    if not taken:
        return
    for machine in machines:
        if machine.place not in refused and machine.facts.labels.get(key) in taken:
            refused[machine.place] = why


def _value(machines: Machines, node: str, key: str) -> str | None:
    machine = machines.by_name.get(node)
    return machine.facts.labels.get(key) if machine is not None else None


def _values(key: str, nodes: Iterable[str], machines: Machines) -> set[str]:
    return {value for node in nodes if (value := _value(machines, node, key)) is not None}


def _tally(terms: tuple[PodAffinityTerm, ...], pod: Resident, machines: Machines, namespaces: Namespaces) -> Tally:
    """Pods that all terms of a pod mean."""
    tests = [meant(term, pod, namespaces) for term in terms]
    key = ("near", *((_names(term, pod, namespaces), repr(_selector(term, pod))) for term in terms))
    return machines.tallies.of(key, lambda other: all(test(other) for test in tests), machines.everyone)


def _selector(term: PodAffinityTerm, owner: Resident) -> object:
    return with_pod_keys(term.label_selector, owner.labels, term.match_label_keys, term.mismatch_label_keys)


def _names(term: PodAffinityTerm, owner: Resident, namespaces: Namespaces) -> frozenset[str] | None:
    """The namespaces that a term means; None for all."""
    selector = term.namespace_selector
    if selector is None:
        return frozenset(term.namespaces or (owner.namespace,))
    if not selector.match_labels and not selector.match_expressions:
        return None
    matches = matcher(selector)
    return frozenset((*term.namespaces, *(name for name, labels in namespaces.items() if matches(labels))))


def meant(term: PodAffinityTerm, owner: Resident, namespaces: Namespaces) -> Callable[[Resident], bool]:
    """Whether a term of ``owner`` means a pod."""
    names = _names(term, owner, namespaces)
    matches = matcher(with_pod_keys(term.label_selector, owner.labels, term.match_label_keys, term.mismatch_label_keys))
    return lambda pod: (names is None or pod.namespace in names) and matches(pod.labels)
