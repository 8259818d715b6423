"""Filters by cordon, taints, node selector and node affinity."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.core import Taint, Toleration
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import UNSCHEDULABLE, CachedNode
from allotment.node_fit.pod_requirements import PodRequirements, selector_matches

_CORDONED = Refusal(("node(s) were unschedulable",), cause="unschedulable")
_TAINTED = Refusal(("node(s) had untolerated taint(s)",), cause="taint")
_NOT_SELECTED = Refusal(("node(s) didn't match Pod's node affinity/selector",), cause="affinity")


def schedulable(requirements: PodRequirements, node: CachedNode) -> Refusal | None:
    """Reject a cordoned node, unless the pod tolerates it."""
    if node.unschedulable and not tolerates(requirements.tolerations, UNSCHEDULABLE):
        return _CORDONED
    return None


def taints(requirements: PodRequirements, node: CachedNode) -> Refusal | None:
    """Reject a node with a NoSchedule or NoExecute taint that the pod does not tolerate."""
    return _TAINTED if untolerated(requirements, node) is not None else None


def node_affinity(requirements: PodRequirements, node: CachedNode) -> Refusal | None:
    """Reject a node that the pod's node selector or required node affinity does not match."""
    labels = node.facts.labels
    for key, value in requirements.node_selector:
        if labels.get(key) != value:
            return _NOT_SELECTED
    if requirements.required is not None and not selector_matches(requirements.required, node.facts):
        return _NOT_SELECTED
    return None


def untolerated(requirements: PodRequirements, node: CachedNode) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that the pod does not tolerate, or None."""
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(requirements.tolerations, taint):
            return taint
    return None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether a toleration matches a taint. An empty key with Exists matches all, an empty effect any effect."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        match toleration.operator:
            case "Exists":
                return True
            case "" | "Equal":
                if toleration.key and toleration.value == taint.value:
                    return True
            case "Gt" | "Lt":
                if _compared(taint.value, toleration.value, greater=toleration.operator == "Gt"):
                    return True
    return False


def _compared(value: str, bound: str, *, greater: bool) -> bool:
    """Compare the taint's number with the toleration's (KEP-5471); False if either is not an integer."""
    try:
        return int(value) > int(bound) if greater else int(value) < int(bound)
    except ValueError:
        return False
