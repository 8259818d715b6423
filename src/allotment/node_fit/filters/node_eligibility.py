"""Whether node and pod admit each other: cordoned nodes, taints, node selector and affinity."""

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
    """A cordoned node takes only pods that tolerate it."""
    if node.unschedulable and not tolerates(requirements.tolerations, UNSCHEDULABLE):
        return _CORDONED
    return None


def taints(requirements: PodRequirements, node: CachedNode) -> Refusal | None:
    """Every taint that keeps pods away must be tolerated."""
    return _TAINTED if untolerated(requirements, node) is not None else None


def node_affinity(requirements: PodRequirements, node: CachedNode) -> Refusal | None:
    """The pod's node selector, and what its node affinity requires."""
    labels = node.facts.labels
    for key, value in requirements.node_selector:
        if labels.get(key) != value:
            return _NOT_SELECTED
    if requirements.required is not None and not selector_matches(requirements.required, node.facts):
        return _NOT_SELECTED
    return None


def untolerated(requirements: PodRequirements, node: CachedNode) -> Taint | None:
    """The first taint that keeps the pod away."""
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(requirements.tolerations, taint):
            return taint
    return None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any toleration covers a taint. An empty key with Exists covers all, an empty effect all effects."""
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
    """KEP-5471: the taint's number against the toleration's."""
    try:
        return int(value) > int(bound) if greater else int(value) < int(bound)
    except ValueError:
        return False
