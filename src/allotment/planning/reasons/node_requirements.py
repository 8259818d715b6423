"""Compares node selectors, affinity, tolerations and architecture of pods with the nodes of an instance type."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model.core import Taint
from allotment.model.node_selectors import NodeSelectorRequirement
from allotment.node_fit.pod_requirements import selector_matches
from allotment.planning.formulation.candidate_nodes import ARCH_LABEL, runs_on
from allotment.planning.pending_pods.demand import PendingPod, untolerated
from allotment.planning.pending_pods.grouping import Item
from allotment.planning.reasons.refusal_text import KIND, OTHER, Shortfall


def node_shortfall(item: Item, nodes: Sequence[NodeFacts], taints: Sequence[Taint] = ()) -> Shortfall | None:
    """The reason why no node of the type matches a pod of the item; None if one matches.

    ``taints``: of the type's nodes; those that a node pool adds are unknown.
    """
    for pod in item.pods:
        taint = untolerated(pod, taints)
        if taint:
            return Shortfall("node-not-eligible", taint, KIND, 1.0)
        if pod.requirements.node_selector or pod.requirements.required is not None:
            shortfalls = [_pod_shortfall(pod, facts) for facts in nodes]
            if all(shortfalls) and shortfalls:
                return shortfalls[0]
        if pod.pod.spec.node_name:
            return Shortfall("node-not-eligible", f"nodeName {pod.pod.spec.node_name} requested", OTHER)
    return None


def architecture_shortfall(item: Item, arch: str) -> Shortfall | None:
    """The reason why the pods do not run on an architecture, which a node selector can choose."""
    if runs_on(item, arch):
        return None
    return Shortfall("node-not-eligible", f"it is {arch}; no {ARCH_LABEL} selected", KIND, 0.5)


def _pod_shortfall(pod: PendingPod, facts: NodeFacts) -> Shortfall | None:
    labels = facts.labels
    for key, value in pod.requirements.node_selector:
        if labels.get(key) != value:
            return Shortfall("node-not-eligible", _label_text(key, labels.get(key), value), KIND, 1.0)
    required = pod.requirements.required
    if required is None or selector_matches(required, facts):
        return None
    for term in required.node_selector_terms:
        for requirement in term.match_expressions:
            text = _unmet_text(requirement, labels.get(requirement.key))
            if text:
                return Shortfall("node-not-eligible", text, KIND, 1.0)
    return Shortfall("node-not-eligible", "the pod's node affinity does not match", KIND, 1.0)


def _label_text(key: str, actual: str | None, wanted: str) -> str:
    short = key.rpartition("/")[2]
    if actual is None:
        return f"label {key}={wanted} requested; new nodes do not have it"
    return f"{short} is {actual}; {wanted} requested"


def _unmet_text(requirement: NodeSelectorRequirement, actual: str | None) -> str:
    """A requirement that a label value does not meet, as text; empty if it does or for other operators."""
    match requirement.operator:
        case "In" if actual not in requirement.values:
            return _label_text(requirement.key, actual, " or ".join(requirement.values[:3]))
        case "NotIn" if actual in requirement.values:
            return f"{requirement.key.rpartition('/')[2]} is {actual}, which is excluded"
        case "Exists" if actual is None:
            return f"label {requirement.key} requested; new nodes do not have it"
        case "DoesNotExist" if actual is not None:
            return f"label {requirement.key} must not exist, but new nodes have it"
        case _:
            return ""
