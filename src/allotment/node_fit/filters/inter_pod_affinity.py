"""Inter-pod affinity: filter and scores by the pod's own affinity terms and those of existing pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from allotment.model.core import PodAffinityTerm
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.label_selectors import Labels, matcher, with_pod_keys
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.topology_counts import PodCounts

_NOT_NEAR = Refusal(("node(s) didn't match pod affinity rules",), cause="neighbours")
_TOO_NEAR = Refusal(("node(s) didn't match pod anti-affinity rules",), preemption_may_help=True, cause="neighbours")
_UNWANTED = Refusal(
    ("node(s) didn't satisfy existing pods anti-affinity rules",), preemption_may_help=True, cause="neighbours"
)

Namespaces = Mapping[str, Labels]
"""Labels of every namespace."""


def inter_pod_affinity(pod: AssignedPod, cache: NodeCache, namespaces: Namespaces) -> dict[int, Refusal]:
    """Return the refusals of nodes because of other pods, by node index."""
    requirements = pod.requirements
    refused: dict[int, Refusal] = {}
    if requirements.affinity:
        for node in _nodes_without_affinity(pod, cache, namespaces):
            refused[node.index] = _NOT_NEAR
    for weighted in requirements.anti_affinity:
        counts = _matching_pods((weighted.term,), pod, cache, namespaces)
        values = _values(weighted.term.topology_key, counts.by_node, cache)
        _refuse(refused, _TOO_NEAR, weighted.term.topology_key, values, cache)
    for key, values in _existing_anti_affinity(pod, cache, namespaces).items():
        _refuse(refused, _UNWANTED, key, values, cache)
    return refused


def inter_pod_affinity_scores(
    pod: AssignedPod, cache: NodeCache, namespaces: Namespaces, among: Iterable[CachedNode]
) -> dict[int, int]:
    """Score nodes by preferred terms of the pod and of existing pods: 0 to 100 by node index."""
    by_key: dict[str, dict[str, int]] = {}
    for weighted in (*pod.requirements.affinity_preferred, *pod.requirements.anti_affinity_preferred):
        key = weighted.term.topology_key
        values = by_key.setdefault(key, {})
        for node_name, count in _matching_pods((weighted.term,), pod, cache, namespaces).by_node.items():
            value = _value(cache, node_name, key)
            if value is not None:
                values[value] = values.get(value, 0) + weighted.weight * count
    for other, node_name in cache.pods_with_affinity.values():
        for weighted in (*other.requirements.affinity_preferred, *other.requirements.anti_affinity_preferred):
            key = weighted.term.topology_key
            value = _value(cache, node_name, key)
            if value is not None and term_matcher(weighted.term, other, namespaces)(pod):
                values = by_key.setdefault(key, {})
                values[value] = values.get(value, 0) + weighted.weight
    if not by_key:
        return {}
    raw_scores = {
        node.index: sum(values.get(node.facts.labels.get(key, ""), 0) for key, values in by_key.items())
        for node in among
    }
    least, most = min(raw_scores.values(), default=0), max(raw_scores.values(), default=0)
    if least == most:
        return {}
    return {index: 100 * (raw - least) // (most - least) for index, raw in raw_scores.items()}


def _nodes_without_affinity(pod: AssignedPod, cache: NodeCache, namespaces: Namespaces) -> Iterable[CachedNode]:
    """Yield nodes without the pods that required affinity terms demand. Only pods that match all terms count."""
    terms = tuple(n.term for n in pod.requirements.affinity)
    counts = _matching_pods(terms, pod, cache, namespaces)
    # The first of a group of pods with affinity to each other has no matching pod yet.
    first = not counts.by_node and all(term_matcher(term, pod, namespaces)(pod) for term in terms)
    near = [(term.topology_key, _values(term.topology_key, counts.by_node, cache)) for term in terms]
    for node in cache:
        labels = node.facts.labels
        if not all(key in labels and (first or labels[key] in values) for key, values in near):
            yield node


def _existing_anti_affinity(pod: AssignedPod, cache: NodeCache, namespaces: Namespaces) -> dict[str, set[str]]:
    """Return the topology values, by key, that the anti-affinity of existing pods excludes."""
    domains: dict[str, set[str]] = {}
    for other, node_name in cache.pods_with_affinity.values():
        for weighted in other.requirements.anti_affinity:
            key = weighted.term.topology_key
            value = _value(cache, node_name, key)
            if value is not None and term_matcher(weighted.term, other, namespaces)(pod):
                domains.setdefault(key, set()).add(value)
    return domains


def _refuse(refused: dict[int, Refusal], refusal: Refusal, key: str, values: set[str], cache: NodeCache) -> None:
    if not values:
        return
    for node in cache:
        if node.index not in refused and node.facts.labels.get(key) in values:
            refused[node.index] = refusal


def _value(cache: NodeCache, node_name: str, key: str) -> str | None:
    node = cache.by_name.get(node_name)
    return node.facts.labels.get(key) if node is not None else None


def _values(key: str, node_names: Iterable[str], cache: NodeCache) -> set[str]:
    return {value for node_name in node_names if (value := _value(cache, node_name, key)) is not None}


def _matching_pods(
    terms: tuple[PodAffinityTerm, ...], pod: AssignedPod, cache: NodeCache, namespaces: Namespaces
) -> PodCounts:
    """Return the counts of pods that match all terms of a pod."""
    tests = [term_matcher(term, pod, namespaces) for term in terms]
    key = ("near", *((_names(term, pod, namespaces), repr(_selector(term, pod))) for term in terms))
    return cache.pod_counts.of(key, lambda other: all(test(other) for test in tests), cache.assigned_pods)


def _selector(term: PodAffinityTerm, owner: AssignedPod) -> object:
    return with_pod_keys(term.label_selector, owner.labels, term.match_label_keys, term.mismatch_label_keys)


def _names(term: PodAffinityTerm, owner: AssignedPod, namespaces: Namespaces) -> frozenset[str] | None:
    """Return the namespaces that a term selects; None for all."""
    selector = term.namespace_selector
    if selector is None:
        return frozenset(term.namespaces or (owner.namespace,))
    if not selector.match_labels and not selector.match_expressions:
        return None
    matches = matcher(selector)
    return frozenset((*term.namespaces, *(name for name, labels in namespaces.items() if matches(labels))))


def term_matcher(term: PodAffinityTerm, owner: AssignedPod, namespaces: Namespaces) -> Callable[[AssignedPod], bool]:
    """Return a predicate that reports whether a pod matches a term of ``owner``."""
    names = _names(term, owner, namespaces)
    matches = matcher(with_pod_keys(term.label_selector, owner.labels, term.match_label_keys, term.mismatch_label_keys))
    return lambda pod: (names is None or pod.namespace in names) and matches(pod.labels)
