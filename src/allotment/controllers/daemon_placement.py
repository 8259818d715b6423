"""Node eligibility of daemon pods: node selectors, affinity and taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, selects
from allotment.model.node_selectors import NodeSelector
from allotment.model.trees import Tree, to_value

#: Tolerations of every daemon pod, so that node problems do not evict it.
DAEMON_TOLERATIONS: Final[tuple[Tree, ...]] = tuple(
    {"key": f"node.kubernetes.io/{trouble}", "operator": "Exists", "effect": effect}
    for trouble, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_ON_HOST_NETWORK: Final[Tree] = {
    "key": "node.kubernetes.io/network-unavailable",
    "operator": "Exists",
    "effect": "NoSchedule",
}


class NodeFit(NamedTuple):
    """Whether a daemon pod should be started on a node, and whether a running one may stay."""

    start: bool
    stay: bool


def fit_node(spec: Tree, node: CachedItem[Any]) -> NodeFit:
    """Check the pod spec of a template against a node."""
    if spec.get("nodeName") not in (None, "", node.name) or not _selected(spec, node):
        return NodeFit(False, False)
    tolerations = daemon_tolerations(spec)
    taints = node.spec.get("taints") or ()
    stay = not any(taint["effect"] == "NoExecute" and not tolerated(taint, tolerations) for taint in taints)
    start = stay and not any(taint["effect"] == "NoSchedule" and not tolerated(taint, tolerations) for taint in taints)
    return NodeFit(start, stay)


def daemon_tolerations(spec: Tree) -> list[Tree]:
    """The template's tolerations plus those that every daemon pod has."""
    own = list(spec.get("tolerations") or ())
    added = [*DAEMON_TOLERATIONS, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else ())]
    return own + [toleration for toleration in added if toleration not in own]


def tolerated(taint: Tree, tolerations: Iterable[Tree]) -> bool:
    """Whether one of the tolerations matches a node's taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def tolerates(toleration: Tree, taint: Tree) -> bool:
    """Whether a toleration matches a taint. An empty effect matches any; an empty key with Exists matches all."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def with_node_affinity(spec: Tree, node: str) -> Tree:
    """Return the pod spec bound to a node by affinity, which replaces the required terms of the template."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.get("affinity") or {}
    node_affinity = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}, "tolerations": daemon_tolerations(spec)}


def node_of(pod: CachedItem[Any]) -> str:
    """The node on which a daemon pod runs or for which it was created."""
    name: str = pod.spec.get("nodeName") or ""
    if name:
        return name
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    required: Tree = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: Sequence[Tree] = required.get("nodeSelectorTerms") or ()
    for term in terms:
        for field in term.get("matchFields") or ():
            if field["key"] == "metadata.name" and field["values"]:
                return str(field["values"][0])
    return ""


def _selected(spec: Tree, node: CachedItem[Any]) -> bool:
    if any(node.labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    try:
        return selects(to_value(required, NodeSelector), NodeFacts(node.name, node.labels))
    except UnusableNodeSelector:
        return False
