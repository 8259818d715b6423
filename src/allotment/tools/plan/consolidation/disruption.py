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
from allotment.tools.plan.consolidation.movable_pods import Lodger
from allotment.tools.plan.consolidation.rescheduling import House

#: As in Karpenter's budgets. Empty: nothing to move. Underutilized: what is on it has room elsewhere.
Reason: TypeAlias = Literal["Empty", "Underutilized"]

#: Annotations that keep nodes and pods where they are, and the value that says so.
LEFT_ALONE: Final[Mapping[str, str]] = {
    "allotment.dev/do-not-disrupt": "true",
    "karpenter.sh/do-not-disrupt": "true",
    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
_MIRROR: Final = "kubernetes.io/config.mirror"
#: Kinds of owners whose pods live and die with their node.
_OF_THE_NODE: Final = ("DaemonSet", "Node")


class Budget(Value, frozen=True):
    """How many nodes may be disturbed at once: a number, or a share of all of ours (``10%``, rounded up).

    ``reasons``: for which; empty: for any. Budgets with a schedule are given only while it runs.
    """

    nodes: str = "10%"
    reasons: tuple[Reason, ...] = ()

    def most(self, total: int) -> int:
        """As a number. Raises ValueError for what is none.

        >>> Budget(nodes="10%").most(11), Budget(nodes="3").most(11)
        (2, 3)
        """
        if self.nodes.endswith("%"):
            return -(-int(self.nodes[:-1]) * total // 100)
        return int(self.nodes)


class Policy(Value, frozen=True):
    """What consolidation may do. ``least_saving``: USD per hour; less is not worth moving pods.

    ``least_share``: replacements must cost less by this fraction, so that two types of about one price do not take
    turns. ``bare_pods``: pods without a controller, which nobody makes again, may be evicted all the same.
    ``local_storage``: pods with data on their node (emptyDir, hostPath) may be evicted, which loses it.
    """

    budgets: tuple[Budget, ...] = (Budget(),)
    least_saving: Decimal = Decimal("0.01")
    least_share: Decimal = Decimal("0.1")
    bare_pods: bool = False
    local_storage: bool = True


class Stays(Value, frozen=True):
    """A node that is kept, and the first reason why."""

    node: str
    code: str
    text: str


def allowed(policy: Policy, reason: Reason, total: int, going: int) -> int:
    """How many more nodes may go now for a reason; the strictest budget counts."""
    bounds = [budget.most(total) for budget in policy.budgets if not budget.reasons or reason in budget.reasons]
    return max(min(bounds, default=total) - going, 0)


def goes_with_node(lodger: Lodger) -> bool:
    """Pods of DaemonSets and of the kubelet itself, which are not moved."""
    metadata = lodger.tree["metadata"]
    owner = _controller(metadata)
    return _MIRROR in (metadata.get("annotations") or {}) or (owner is not None and owner.get("kind") in _OF_THE_NODE)


def movable(house: House, node: str) -> list[Lodger]:
    """The pods of a node that need another place when it goes; those that are ending need none."""
    return [one for one in house.on.get(node, ()) if not goes_with_node(one) and not one.resident.terminating]


def obstacle(house: House, node: str, policy: Policy) -> Stays | None:
    """Why a node must stay, whatever room there is elsewhere; None if nothing of it stands in the way."""
    tree = house.nodes[node]
    if "deletionTimestamp" in tree["metadata"]:
        return Stays(node=node, code="going", text="it is being deleted already")
    if word := _left_alone(tree["metadata"]):
        return Stays(node=node, code="do-not-disrupt", text=f"the node has the annotation {word}")
    ready = {c.get("type"): c.get("status") for c in (tree.get("status") or {}).get("conditions") or ()}.get("Ready")
    if ready not in (None, "True"):
        return Stays(node=node, code="not-ready", text="the node is not ready, and what is on it may come back")
    for lodger in house.waiting:
        if (lodger.tree.get("status") or {}).get("nominatedNodeName") == node:
            return Stays(node=node, code="pod-coming", text=f"pod {lodger.key} is about to come")
    here = {one.resident.uid for one in house.on.get(node, ())}
    for lodger in house.on.get(node, ()):
        if lodger.resident.terminating or goes_with_node(lodger):
            continue
        if why := _pod_obstacle(lodger, policy):
            return Stays(node=node, code=why[0], text=f"pod {lodger.key} {why[1]}")
    for key, claim in house.claims.items():
        if claim.allocation is None or not claim.users - here:
            continue
        if any(house.node_of_pool(result.driver, result.pool) == node for result in claim.allocation.devices.results):
            return Stays(node=node, code="claim-in-use", text=f"ResourceClaim {key} of others has devices of it")
    return None


def _pod_obstacle(lodger: Lodger, policy: Policy) -> tuple[str, str] | None:
    metadata = lodger.tree["metadata"]
    if word := _left_alone(metadata):
        return "do-not-disrupt", f"has the annotation {word}"
    if not policy.bare_pods and _controller(metadata) is None:
        return "bare-pod", "has no controller that would make it again"
    local = local_storage(lodger)
    if not policy.local_storage and local:
        return "local-storage", f"has data on the node (volume {local[0]})"
    if lodger.obstacle:
        return "not-known", f"could not be placed again: {lodger.obstacle}"
    return None


def local_storage(lodger: Lodger) -> list[str]:
    """Volumes of a pod whose content stays on the node; those in memory are gone with the pod anyway."""
    return [
        str(volume.get("name"))
        for volume in lodger.tree["spec"].get("volumes") or ()
        if volume.get("hostPath") is not None
        or (volume.get("emptyDir") is not None and (volume["emptyDir"] or {}).get("medium") != "Memory")
    ]


def _left_alone(metadata: Tree) -> str:
    annotations = metadata.get("annotations") or {}
    return next((f"{k}={v}" for k, v in LEFT_ALONE.items() if annotations.get(k) == v), "")


def _controller(metadata: Tree) -> Tree | None:
    owners: Sequence[Tree] = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


class Guards:
    """The PodDisruptionBudgets: how many of the pods that each protects may be evicted now."""

    def __init__(self, budgets: Iterable[Tree], lodgers: Iterable[Lodger]) -> None:
        everyone = list(lodgers)
        self._guards: list[tuple[str, frozenset[str], int]] = []
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
            self._guards.append((str(key), counted, _may_go(tree, pods)))

    def objection(self, before: Iterable[Lodger], leaving: Iterable[Lodger]) -> str:
        """Why the pods of a node may not be evicted beside those of nodes ``before``; empty if they may.

        A budget may allow fewer evictions than there are pods of one node: they go one after the other, each when the
        one before runs elsewhere. Two nodes do not wait for each other that way.
        """
        earlier = {one.resident.uid for one in before}
        gone = {one.resident.uid: one for one in leaving}
        for uid, names in self._by_pod.items():
            if uid in gone and len(names) > 1:  # the eviction call refuses such a pod whatever the budgets say
                return f"pod {gone[uid].key} has several PodDisruptionBudgets ({', '.join(names)})"
        for name, counted, most in self._guards:
            asked, taken = len(counted & gone.keys()), len(counted & earlier)
            if asked and (not most or (taken and taken + asked > most)):
                left = max(most - taken, 0)
                return f"PodDisruptionBudget {name} allows {left} more evictions now, {asked} would be needed"
        return ""


def _is_ready(lodger: Lodger) -> bool:
    conditions = (lodger.tree.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _may_go(budget: Tree, pods: Sequence[Lodger]) -> int:
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
