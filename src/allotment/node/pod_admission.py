"""The kubelet's own check of pods that no scheduler assigned: a pod that does not fit on its node fails.

A pod that a scheduler has bound was checked against the same rules, and is not checked again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.model.core import Taint
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree
from allotment.node_fit.assigned_pod import to_assigned_pod
from allotment.node_fit.filters.node_eligibility import node_affinity, taints
from allotment.node_fit.filters.ports import ports
from allotment.node_fit.nodes import CachedNode
from allotment.node_fit.pod_requirements import PodRequirements, PodRequirementsCache, amount

_TOO_LITTLE: Final = "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}"


class Rejection(NamedTuple):
    """Reason and message, as in the event; the pod's status says before the message that the pod was rejected."""

    reason: str
    message: str


def rejection(pod: Tree, node: Tree, others: Iterable[Tree]) -> Rejection | None:
    """Return why a pod that names its node cannot run there; None if it can. ``others``: the node's other pods."""
    if _is_scheduled(pod):
        return None
    known = PodRequirementsCache()
    demand = known.of(pod["spec"])
    cached = _cached(node, others, known)
    if (lacking := _shortage(demand, cached)) is not None:
        return lacking
    if node_affinity(demand, cached) is not None:
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if (refusal := ports(demand, cached)) is not None:
        return _failed("NodePorts", refusal.texts[0])
    cached.taints = tuple(taint for taint in cached.taints if taint.effect == "NoExecute")
    if taints(demand, cached) is not None:
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _is_scheduled(pod: Tree) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "True" for each in conditions)


def _cached(node: Tree, others: Iterable[Tree], known: PodRequirementsCache) -> CachedNode:
    """The node with what its pods use."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    cached = CachedNode(metadata["name"], 0)
    cached.facts = NodeFacts(metadata["name"], metadata.get("labels") or {})
    cached.taints = tuple(
        Taint(key=each.get("key", ""), value=each.get("value", ""), effect=each.get("effect", ""))
        for each in spec.get("taints") or ()
    )
    allocatable = status.get("allocatable") or {}
    cached.set_allocatable({name: amount(name, Quantity.parse(str(size))) for name, size in allocatable.items()})
    for other in others:
        if (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            cached.add(to_assigned_pod(other, known.of(other["spec"], other.get("status"))))
    return cached


def _shortage(demand: PodRequirements, node: CachedNode) -> Rejection | None:
    """The first resource of which a node has too little. As in Kubernetes, resources that it does not have are those
    of the cluster or of devices."""
    if len(node.pods) >= node.pods_allowed:
        return Rejection("OutOfpods", _TOO_LITTLE.format("pods", 1, len(node.pods), node.pods_allowed))
    for name, requested in demand.requests.items():
        capacity = node.allocatable.get(name)
        if capacity is not None and requested > node.free[name]:
            text = _TOO_LITTLE.format(name, requested, capacity - node.free[name], capacity)
            return Rejection(f"OutOf{name}", text)
    return None


def _failed(name: str, text: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {text}")
