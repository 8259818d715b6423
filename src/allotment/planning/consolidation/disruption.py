"""Limits on disruption: nodes and pods that must stay, PodDisruptionBudgets, and budgets for concurrent removals.

Annotations of Karpenter and cluster-autoscaler have the same effect as Allotment's, so workloads need no changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from allotment.model.core import LabelSelector
from allotment.model.meta import ObjectKey, Value
from allotment.model.trees import Tree, read_value
from allotment.node_fit.label_selectors import matcher
from allotment.phrases import counted
from allotment.planning.consolidation.movable_pods import MovablePod
from allotment.planning.consolidation.rescheduling import SimulatedCluster

#: As in Karpenter's budgets. Empty: no pods to move. Underutilized: its pods fit on other nodes.
Reason: TypeAlias = Literal["Empty", "Underutilized"]

#: Annotations, with their values, that exclude nodes and pods from disruption.
DO_NOT_DISRUPT: Final[Mapping[str, str]] = {
    "allotment.dev/do-not-disrupt": "true",
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
_MIRROR: Final = "kubernetes.io/config.mirror"
#: Kinds of owners whose pods are bound to their node.
_NODE_OWNERS: Final = ("DaemonSet", "Node")


class DisruptionBudget(Value, frozen=True):
    """The maximum number of nodes removed at a time: a number, or a share of the owned nodes (``10%``, rounded up).

    ``reasons``: the reasons it applies to; empty: all. The caller passes budgets with a schedule only while it is
    active.
    """

    nodes: str = "10%"
    reasons: tuple[Reason, ...] = ()

    def max_nodes(self, total: int) -> int:
        """The budget as a number of nodes. Raises ValueError if ``nodes`` is neither a number nor a percentage.

        >>> DisruptionBudget(nodes="10%").max_nodes(11), DisruptionBudget(nodes="3").max_nodes(11)
        (2, 3)
        """
        if self.nodes.endswith("%"):
            return -(-int(self.nodes[:-1]) * total // 100)
        return int(self.nodes)


class ConsolidationPolicy(Value, frozen=True):
    """The policy of consolidation. ``min_saving``: in USD per hour; a smaller saving does not justify moving pods.

    ``min_share``: the fraction by which replacements must be cheaper, so that types with similar prices do not
    alternate. ``bare_pods``: allow eviction of pods without a controller, which are not recreated. ``local_storage``:
    allow eviction of pods with data on their node (emptyDir, hostPath), which is lost.
    """

    budgets: tuple[DisruptionBudget, ...] = (DisruptionBudget(),)
    min_saving: Decimal = Decimal("0.01")
    min_share: Decimal = Decimal("0.1")
    bare_pods: bool = False
    local_storage: bool = True


class KeptNode(Value, frozen=True):
    """A node that is not removed, with the first reason."""

    node: str
    code: str
    text: str


def allowed_removals(policy: ConsolidationPolicy, reason: Reason, total: int, removing: int) -> int:
    """The number of nodes that may still be removed for a reason, by the strictest budget."""
    bounds = [budget.max_nodes(total) for budget in policy.budgets if not budget.reasons or reason in budget.reasons]
    return max(min(bounds, default=total) - removing, 0)


def is_bound_to_node(pod: MovablePod) -> bool:
    """Whether the pod belongs to its node: pods of DaemonSets and static pods are not moved."""
    metadata = pod.tree["metadata"]
    owner = _controller(metadata)
    return _MIRROR in (metadata.get("annotations") or {}) or (owner is not None and owner.get("kind") in _NODE_OWNERS)


def pods_to_move(cluster: SimulatedCluster, node: str) -> list[MovablePod]:
    """The pods of a node that must be moved when it is removed; terminating pods need no new node."""
    return [pod for pod in cluster.pods_on.get(node, ()) if not is_bound_to_node(pod) and not pod.resident.terminating]


def blocker(cluster: SimulatedCluster, node: str, policy: ConsolidationPolicy) -> KeptNode | None:
    """The reason why a node must stay, regardless of capacity elsewhere; None if there is none."""
    tree = cluster.nodes[node]
    if "deletionTimestamp" in tree["metadata"]:
        return KeptNode(node=node, code="going", text="it is already being deleted")
    if annotation := _do_not_disrupt(tree["metadata"]):
        return KeptNode(node=node, code="do-not-disrupt", text=f"the node has the annotation {annotation}")
    ready = {c.get("type"): c.get("status") for c in (tree.get("status") or {}).get("conditions") or ()}.get("Ready")
    if ready not in (None, "True"):
        return KeptNode(node=node, code="not-ready", text="the node is not ready, and its pods may recover")
    for pod in cluster.pending:
        if (pod.tree.get("status") or {}).get("nominatedNodeName") == node:
            return KeptNode(node=node, code="pod-coming", text=f"it is the nominated node of pod {pod.key}")
    running = {pod.resident.uid for pod in cluster.pods_on.get(node, ())}
    for pod in cluster.pods_on.get(node, ()):
        if pod.resident.terminating or is_bound_to_node(pod):
            continue
        if reason := _pod_blocker(pod, policy):
            return KeptNode(node=node, code=reason[0], text=f"pod {pod.key} {reason[1]}")
    for key, claim in cluster.claims.items():
        if claim.allocation is None or not claim.users - running:
            continue
        if any(cluster.node_of_pool(result.driver, result.pool) == node for result in claim.allocation.devices.results):
            return KeptNode(
                node=node,
                code="claim-in-use",
                text=f"other pods use ResourceClaim {key}, whose devices are on this node",
            )
    return None


def _pod_blocker(pod: MovablePod, policy: ConsolidationPolicy) -> tuple[str, str] | None:
    metadata = pod.tree["metadata"]
    if annotation := _do_not_disrupt(metadata):
        return "do-not-disrupt", f"has the annotation {annotation}"
    if not policy.bare_pods and _controller(metadata) is None:
        return "bare-pod", "has no controller to recreate it"
    volumes = local_storage(pod)
    if not policy.local_storage and volumes:
        return "local-storage", f"has data on the node (volume {volumes[0]})"
    if pod.obstacle:
        return "not-known", f"cannot be rescheduled: {pod.obstacle}"
    return None


def local_storage(pod: MovablePod) -> list[str]:
    """The volumes of a pod with data on the node; volumes in memory are lost with the pod in any case."""
    return [
        str(volume.get("name"))
        for volume in pod.tree["spec"].get("volumes") or ()
        if volume.get("hostPath") is not None
        or (volume.get("emptyDir") is not None and (volume["emptyDir"] or {}).get("medium") != "Memory")
    ]


def _do_not_disrupt(metadata: Tree) -> str:
    annotations = metadata.get("annotations") or {}
    return next((f"{k}={v}" for k, v in DO_NOT_DISRUPT.items() if annotations.get(k) == v), "")


def _controller(metadata: Tree) -> Tree | None:
    owners: Sequence[Tree] = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


class EvictionBudgets:
    """The PodDisruptionBudgets, with the number of evictions that each allows."""

    def __init__(self, budgets: Iterable[Tree], pods: Iterable[MovablePod]) -> None:
        everyone = list(pods)
        self._budgets: list[tuple[str, frozenset[str], int]] = []
        self._by_pod: dict[str, list[str]] = {}
        for tree in budgets:
            key = ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])
            selector = (tree.get("spec") or {}).get("selector")
            matches = matcher(read_value(selector, LabelSelector) if selector is not None else None)
            pods = [pod for pod in everyone if pod.key.namespace == key.namespace and matches(pod.resident.labels)]
            for pod in pods:
                self._by_pod.setdefault(pod.resident.uid, []).append(str(key))
            free = (tree.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            relevant = frozenset(pod.resident.uid for pod in pods if not free or _is_ready(pod))
            self._budgets.append((str(key), relevant, _disruptions_allowed(tree, pods)))

    def violation(self, before: Iterable[MovablePod], leaving: Iterable[MovablePod]) -> str:
        """The reason why the pods of a node cannot be evicted in addition to those in ``before``; empty if they can.

        A budget may allow fewer evictions than one node has pods: these are evicted one after the other, each when the
        previous one runs elsewhere. Nodes do not wait for each other in this way.
        """
        earlier = {pod.resident.uid for pod in before}
        gone = {pod.resident.uid: pod for pod in leaving}
        for uid, names in self._by_pod.items():
            if uid in gone and len(names) > 1:  # the eviction call refuses such a pod whatever the budgets say
                return (
                    f"pod {gone[uid].key} has more than one PodDisruptionBudget ({', '.join(names)}), which the "
                    "Eviction API does not support"
                )
        for name, relevant, limit in self._budgets:
            needed, used = len(relevant & gone.keys()), len(relevant & earlier)
            if needed and (not limit or (used and used + needed > limit)):
                left = max(limit - used, 0)
                allowed = counted(left, "more eviction")
                return f"PodDisruptionBudget {name} allows {allowed}, but removing the node requires {needed}"
        return ""


def _is_ready(pod: MovablePod) -> bool:
    conditions = (pod.tree.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _disruptions_allowed(budget: Tree, pods: Sequence[MovablePod]) -> int:
    """The disruptionsAllowed of the status, or a value computed from the pods if the status is missing or outdated."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    generation = budget["metadata"].get("generation", 0)
    if "disruptionsAllowed" in status and status.get("observedGeneration", 0) >= generation:
        return int(status["disruptionsAllowed"])
    running = [pod for pod in pods if not pod.resident.terminating]
    healthy = sum(1 for pod in running if _is_ready(pod) and (pod.tree["spec"].get("nodeName")))
    limit, minimum = spec.get("maxUnavailable"), spec.get("minAvailable")
    if limit is not None:
        required = len(running) - _scaled(limit, len(running))
    else:
        required = _scaled(minimum, len(running)) if minimum is not None else 0
    return max(healthy - max(required, 0), 0)


def _scaled(amount: int | str, total: int) -> int:
    """A number, or a percentage of the total rounded up, as the disruption controller rounds both fields."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-int(amount[:-1]) * total // 100)
    return int(amount)
