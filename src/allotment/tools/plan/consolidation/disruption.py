"""What may be disturbed: nodes and pods that want to be left alone, PodDisruptionBudgets, and how many nodes at once.

Annotations are those of Karpenter and of cluster-autoscaler besides our own, so that workloads need not be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from allotment.model.meta import ObjectKey, Value
from allotment.model.trees import Tree, read_value
from allotment.node_fit.label_selectors import matcher
from allotment.node_fit.podspec import LabelSelector
from allotment.tools.plan.consolidation.movable_pods import MovablePod
from allotment.tools.plan.consolidation.rescheduling import SimulatedCluster

#: As in Karpenter's budgets. Empty: nothing to move. Underutilized: what is on it has room elsewhere.
Reason: TypeAlias = Literal["Empty", "Underutilized"]

#: Annotations that keep nodes and pods where they are, and the value that says so.
DO_NOT_DISRUPT: Final[Mapping[str, str]] = {
    "allotment.dev/do-not-disrupt": "true",
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
_MIRROR: Final = "kubernetes.io/config.mirror"
#: Kinds of owners whose pods live and die with their node.
_NODE_OWNERS: Final = ("DaemonSet", "Node")


class DisruptionBudget(Value, frozen=True):
    """How many nodes may be disturbed at once: a number, or a share of all of ours (``10%``, rounded up).

    ``reasons``: for which; empty: for any. Budgets with a schedule are given only while it runs.
    """

    nodes: str = "10%"
    reasons: tuple[Reason, ...] = ()

    def max_nodes(self, total: int) -> int:
        """As a number. Raises ValueError for what is none.

        >>> Budget(nodes="10%").most(11), Budget(nodes="3").most(11)
        (2, 3)
        """
        if self.nodes.endswith("%"):
            return -(-int(self.nodes[:-1]) * total // 100)
        return int(self.nodes)


class ConsolidationPolicy(Value, frozen=True):
    """What consolidation may do. ``least_saving``: USD per hour; less is not worth moving pods.

    ``least_share``: replacements must cost less by this fraction, so that two types of about one price do not take
    turns. ``bare_pods``: pods without a controller, which nobody makes again, may be evicted all the same.
    ``local_storage``: pods with data on their node (emptyDir, hostPath) may be evicted, which loses it.
    """

    budgets: tuple[DisruptionBudget, ...] = (DisruptionBudget(),)
    min_saving: Decimal = Decimal("0.01")
    min_share: Decimal = Decimal("0.1")
    bare_pods: bool = False
    local_storage: bool = True


class KeptNode(Value, frozen=True):
    """A node that is kept, and the first reason why."""

    node: str
    code: str
    text: str


def allowed_removals(policy: ConsolidationPolicy, reason: Reason, total: int, removing: int) -> int:
    """How many more nodes may go now for a reason; the strictest budget counts."""
    bounds = [budget.max_nodes(total) for budget in policy.budgets if not budget.reasons or reason in budget.reasons]
    return max(min(bounds, default=total) - removing, 0)


def is_bound_to_node(pod: MovablePod) -> bool:
    """Pods of DaemonSets and of the kubelet itself, which are not moved."""
    metadata = pod.tree["metadata"]
    owner = _controller(metadata)
    return _MIRROR in (metadata.get("annotations") or {}) or (owner is not None and owner.get("kind") in _NODE_OWNERS)


def pods_to_move(cluster: SimulatedCluster, node: str) -> list[MovablePod]:
    """The pods of a node that need another place when it goes; those that are ending need none."""
    return [one for one in cluster.pods_on.get(node, ()) if not is_bound_to_node(one) and not one.resident.terminating]


def blocker(cluster: SimulatedCluster, node: str, policy: ConsolidationPolicy) -> KeptNode | None:
    """Why a node must stay, whatever room there is elsewhere; None if nothing of it stands in the way."""
    tree = cluster.nodes[node]
    if "deletionTimestamp" in tree["metadata"]:
        return KeptNode(node=node, code="going", text="it is being deleted already")
    if word := _do_not_disrupt(tree["metadata"]):
        return KeptNode(node=node, code="do-not-disrupt", text=f"the node has the annotation {word}")
    ready = {c.get("type"): c.get("status") for c in (tree.get("status") or {}).get("conditions") or ()}.get("Ready")
    if ready not in (None, "True"):
        return KeptNode(node=node, code="not-ready", text="the node is not ready, and what is on it may come back")
    for pod in cluster.pending:
        if (pod.tree.get("status") or {}).get("nominatedNodeName") == node:
            return KeptNode(node=node, code="pod-coming", text=f"pod {pod.key} is about to come")
    here = {one.resident.uid for one in cluster.pods_on.get(node, ())}
    for pod in cluster.pods_on.get(node, ()):
        if pod.resident.terminating or is_bound_to_node(pod):
            continue
        if why := _pod_blocker(pod, policy):
            return KeptNode(node=node, code=why[0], text=f"pod {pod.key} {why[1]}")
    for key, claim in cluster.claims.items():
        if claim.allocation is None or not claim.users - here:
            continue
        if any(cluster.node_of_pool(result.driver, result.pool) == node for result in claim.allocation.devices.results):
            return KeptNode(node=node, code="claim-in-use", text=f"ResourceClaim {key} of others has devices of it")
    return None


def _pod_blocker(pod: MovablePod, policy: ConsolidationPolicy) -> tuple[str, str] | None:
    metadata = pod.tree["metadata"]
    if word := _do_not_disrupt(metadata):
        return "do-not-disrupt", f"has the annotation {word}"
    if not policy.bare_pods and _controller(metadata) is None:
        return "bare-pod", "has no controller that would make it again"
    local = local_storage(pod)
    if not policy.local_storage and local:
        return "local-storage", f"has data on the node (volume {local[0]})"
    if pod.obstacle:
        return "not-known", f"could not be placed again: {pod.obstacle}"
    return None


def local_storage(pod: MovablePod) -> list[str]:
    """Volumes of a pod whose content stays on the node; those in memory are gone with the pod anyway."""
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
    """The PodDisruptionBudgets: how many of the pods that each protects may be evicted now."""

    def __init__(self, budgets: Iterable[Tree], pods: Iterable[MovablePod]) -> None:
        everyone = list(pods)
        self._budgets: list[tuple[str, frozenset[str], int]] = []
        self._by_pod: dict[str, list[str]] = {}
        for tree in budgets:
            key = ObjectKey(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])
            selector = (tree.get("spec") or {}).get("selector")
            matches = matcher(read_value(selector, LabelSelector) if selector is not None else None)
            pods = [one for one in everyone if one.key.namespace == key.namespace and matches(one.resident.labels)]
            for one in pods:
                self._by_pod.setdefault(one.resident.uid, []).append(str(key))
            free = (tree.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            counted = frozenset(one.resident.uid for one in pods if not free or _is_ready(one))
            self._budgets.append((str(key), counted, _disruptions_allowed(tree, pods)))

    def violation(self, before: Iterable[MovablePod], leaving: Iterable[MovablePod]) -> str:
        """Why the pods of a node may not be evicted beside those of nodes ``before``; empty if they may.

        A budget may allow fewer evictions than there are pods of one node: they go one after the other, each when the
        one before runs elsewhere. Two nodes do not wait for each other that way.
        """
        earlier = {one.resident.uid for one in before}
        gone = {one.resident.uid: one for one in leaving}
        for uid, names in self._by_pod.items():
            if uid in gone and len(names) > 1:  # the eviction call refuses such a pod whatever the budgets say
                return f"pod {gone[uid].key} has several PodDisruptionBudgets ({', '.join(names)})"
        for name, counted, most in self._budgets:
            asked, taken = len(counted & gone.keys()), len(counted & earlier)
            if asked and (not most or (taken and taken + asked > most)):
                left = max(most - taken, 0)
                return f"PodDisruptionBudget {name} allows {left} more evictions now, {asked} would be needed"
        return ""


def _is_ready(pod: MovablePod) -> bool:
    conditions = (pod.tree.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _disruptions_allowed(budget: Tree, pods: Sequence[MovablePod]) -> int:
    """What its controller says; without a word of it (a file, or it is new) what follows from the pods there are."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    generation = budget["metadata"].get("generation", 0)
    if "disruptionsAllowed" in status and status.get("observedGeneration", 0) >= generation:
        return int(status["disruptionsAllowed"])
    here = [one for one in pods if not one.resident.terminating]
    healthy = sum(1 for one in here if _is_ready(one) and (one.tree["spec"].get("nodeName")))
    most, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most is not None:
        wanted = len(here) - _scaled(most, len(here))
    else:
        wanted = _scaled(least, len(here)) if least is not None else 0
    return max(healthy - max(wanted, 0), 0)


def _scaled(amount: int | str, total: int) -> int:
    """A number, or a share of the total rounded up, as the budgets' controller does for both of its fields."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-int(amount[:-1]) * total // 100)
    return int(amount)
