"""Topology spread (KEP-895): filter and scores by how evenly matching pods are spread over topology domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allotment.model.core import TopologySpreadConstraint
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters.node_eligibility import untolerated
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import matcher, with_pod_keys
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import PodRequirements, selector_matches
from allotment.node_fit.topology_counts import PodCounts

_UNEVEN = Refusal(("node(s) didn't match pod topology spread constraints",), preemption_may_help=True, cause="spread")
_NO_LABEL = Refusal(("node(s) didn't match pod topology spread constraints (missing required label)",), cause="spread")


def topology_spread(
    requirements: PodRequirements, namespace: str, labels: Mapping[str, str], cache: NodeCache
) -> dict[int, Refusal]:
    """Return the refusals of nodes on which the pod would exceed the maximum skew, by node index."""
    required = [c for c in requirements.spread if c.when_unsatisfiable == "DoNotSchedule"]
    refused: dict[int, Refusal] = {}
    keys = [c.topology_key for c in required]
    for constraint in required:
        counts_by_node = _matching_pods(constraint, namespace, labels, cache)
        domains = _domains(constraint, keys, requirements, cache, counts_by_node)
        least = min(domains.values(), default=0)
        if constraint.min_domains is not None and len(domains) < constraint.min_domains:
            least = 0
        self_match = 1 if matcher(constraint.label_selector)(labels) else 0
        for node in cache:
            if node.index in refused:
                continue
            value = node.facts.labels.get(constraint.topology_key)
            if value is None:
                refused[node.index] = _NO_LABEL
            elif domains.get(value, 0) + self_match - least > constraint.max_skew:
                refused[node.index] = _UNEVEN
    return refused


def topology_spread_scores(
    requirements: PodRequirements,
    namespace: str,
    labels: Mapping[str, str],
    cache: NodeCache,
    among: Iterator[CachedNode],
) -> dict[int, int]:
    """Score nodes by ScheduleAnyway constraints, 0 to 100 by node index: fewer matching pods score higher."""
    preferred = [c for c in requirements.spread if c.when_unsatisfiable == "ScheduleAnyway"]
    if not preferred:
        return {}
    keys = [c.topology_key for c in preferred]
    counts_near: dict[int, int] = {}
    counts = [
        (c.topology_key, _domains(c, keys, requirements, cache, _matching_pods(c, namespace, labels, cache)))
        for c in preferred
    ]
    for node in among:
        node_labels = node.facts.labels
        counts_near[node.index] = sum(domains.get(node_labels.get(key, ""), 0) for key, domains in counts)
    most, least = max(counts_near.values(), default=0), min(counts_near.values(), default=0)
    if most == 0:
        return dict.fromkeys(counts_near, 100)
    return {index: 100 * (most + least - count) // most for index, count in counts_near.items()}


def _matching_pods(
    constraint: TopologySpreadConstraint, namespace: str, labels: Mapping[str, str], cache: NodeCache
) -> PodCounts:
    selector = with_pod_keys(constraint.label_selector, labels, constraint.match_label_keys)
    key = ("spread", namespace, repr(selector))
    matches = matcher(selector)

    def counts(pod: AssignedPod) -> bool:
        return not pod.terminating and pod.namespace == namespace and matches(pod.labels)

    return cache.pod_counts.of(key, counts, cache.assigned_pods)


def _domains(
    constraint: TopologySpreadConstraint,
    keys: list[str],
    requirements: PodRequirements,
    cache: NodeCache,
    counts_by_node: PodCounts,
) -> dict[str, int]:
    """Return the number of matching pods by topology value, over the nodes that the constraint includes."""
    domains: dict[str, int] = {}
    for node in cache:
        labels = node.facts.labels
        if not all(key in labels for key in keys) or not _is_eligible(constraint, requirements, node):
            continue
        value = labels[constraint.topology_key]
        domains[value] = domains.get(value, 0) + counts_by_node.by_node.get(node.name, 0)
    return domains


def _is_eligible(constraint: TopologySpreadConstraint, requirements: PodRequirements, node: CachedNode) -> bool:
    """Return whether a node counts for a constraint, by ``nodeAffinityPolicy`` (default Honor) and
    ``nodeTaintsPolicy`` (default Ignore)."""
    if constraint.node_affinity_policy != "Ignore":
        labels = node.facts.labels
        if any(labels.get(key) != value for key, value in requirements.node_selector):
            return False
        if requirements.required is not None and not selector_matches(requirements.required, node.facts):
            return False
    return constraint.node_taints_policy != "Honor" or untolerated(requirements, node) is None
