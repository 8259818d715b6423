"""Topology spread (KEP-895): how unevenly pods of one kind may lie over zones, nodes or whatever labels tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allotment.node_fit.assigned_pod import Resident
from allotment.node_fit.filters.node_eligibility import untolerated
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import matcher, with_pod_keys
from allotment.node_fit.nodes import Machine, Machines
from allotment.node_fit.pod_requirements import Demand, admits
from allotment.node_fit.podspec import TopologySpreadConstraint
from allotment.node_fit.topology_counts import Tally

_UNEVEN = Refusal(("node(s) didn't match pod topology spread constraints",), preemption_may_help=True, cause="spread")
_NO_LABEL = Refusal(("node(s) didn't match pod topology spread constraints (missing required label)",), cause="spread")


def spread(demand: Demand, namespace: str, labels: Mapping[str, str], machines: Machines) -> dict[int, Refusal]:
    """Nodes on which the pod would make the spread too uneven, by place."""
    hard = [c for c in demand.spread if c.when_unsatisfiable == "DoNotSchedule"]
    refused: dict[int, Refusal] = {}
    keys = [c.topology_key for c in hard]
    for constraint in hard:
        tally = _tally(constraint, namespace, labels, machines)
        domains = _domains(constraint, keys, demand, machines, tally)
        least = min(domains.values(), default=0)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            least = 0
        itself = 1 if matcher(constraint.label_selector)(labels) else 0
        for machine in machines:
            if machine.place in refused:
                continue
            value = machine.facts.labels.get(constraint.topology_key)
            if value is None:
                refused[machine.place] = _NO_LABEL
            elif domains.get(value, 0) + itself - least > constraint.max_skew:
                refused[machine.place] = _UNEVEN
    return refused


def spread_scores(
    demand: Demand, namespace: str, labels: Mapping[str, str], machines: Machines, among: Iterator[Machine]
) -> dict[int, int]:
    """For spread that is only wished for: the fewer pods are near, the better, 0 to 100 by place."""
    soft = [c for c in demand.spread if c.when_unsatisfiable == "ScheduleAnyway"]
    if not soft:
        return {}
    keys = [c.topology_key for c in soft]
    near: dict[int, int] = {}
    counts = [
        (c.topology_key, _domains(c, keys, demand, machines, _tally(c, namespace, labels, machines))) for c in soft
    ]
    for machine in among:
        own = machine.facts.labels
        near[machine.place] = sum(domains.get(own.get(key, ""), 0) for key, domains in counts)
    most, least = max(near.values(), default=0), min(near.values(), default=0)
    if most == 0:
        return dict.fromkeys(near, 100)
    return {place: 100 * (most + least - count) // most for place, count in near.items()}


def _tally(
    constraint: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str], machines: Machines
) -> Tally:
    selector = with_pod_keys(constraint.label_selector, labels, constraint.match_label_keys)
    key = ("spread", namespace, repr(selector))
    matches = matcher(selector)

    def counts(pod: Resident) -> bool:
        return not pod.terminating and pod.namespace == namespace and matches(pod.labels)

    return machines.tallies.of(key, counts, machines.everyone)


def _domains(
    constraint: TopologySpreadConstraint, keys: list[str], demand: Demand, machines: Machines, tally: Tally
) -> dict[str, int]:
    """Pods that count by value of the topology key, over the nodes that the constraint means."""
    found: dict[str, int] = {}
    for machine in machines:
        labels = machine.facts.labels
        if not all(key in labels for key in keys) or not _counts(constraint, demand, machine):
            continue
        value = labels[constraint.topology_key]
        found[value] = found.get(value, 0) + tally.by_node.get(machine.name, 0)
    return found


def _counts(constraint: TopologySpreadConstraint, demand: Demand, machine: Machine) -> bool:
    """Nodes that the pod's own affinity excludes do not count, unless told to; tainted ones do, unless told not to."""
    if constraint.node_affinity_policy != "Ignore":
        labels = machine.facts.labels
        if any(labels.get(key) != value for key, value in demand.node_selector):
            return False
        if demand.required is not None and not admits(demand.required, machine.facts):
            return False
    return constraint.node_taints_policy != "Honor" or untolerated(demand, machine) is None
