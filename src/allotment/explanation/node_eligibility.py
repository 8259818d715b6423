"""Nodes on which a pod may run, independent of devices: node name, selector, affinity, taints.

The rules are those of the scheduler's NodeName, NodeUnschedulable, NodeAffinity and TaintToleration filters; cpu and
memory are not considered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, selects
from allotment.model.core import HOSTNAME_LABEL, Node, Pod, PodSpec, Taint, Toleration
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import ResourceSlice
from allotment.phrases import first_few

#: The taint of a cordoned node.
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class EligibilityNode(NamedTuple):
    """A node. ``has_object`` is false for a node that only slices name; it has neither labels nor taints."""

    facts: NodeFacts
    taints: tuple[Taint, ...] = ()
    has_object: bool = True


def eligibility_nodes(nodes: Iterable[Node], slices: Iterable[ResourceSlice]) -> dict[str, EligibilityNode]:
    """The given nodes, followed by nodes that only slices name."""
    known: dict[str, EligibilityNode] = {}
    for node in nodes:
        name = node.metadata.name
        taints = node.spec.taints
        if node.spec.unschedulable:  # the node controller may have added the taint already
            taints = (*(taint for taint in taints if taint.key != UNSCHEDULABLE.key), UNSCHEDULABLE)
        labels = {HOSTNAME_LABEL: name, **node.metadata.labels}
        known[name] = EligibilityNode(NodeFacts(name, labels, frozenset(node.status.declared_features)), taints)
    for slice_ in slices:
        for name in nodes_of(slice_):
            known.setdefault(name, EligibilityNode(NodeFacts(name, {HOSTNAME_LABEL: name}), has_object=False))
    return known


def nodes_of(slice_: ResourceSlice) -> tuple[str, ...]:
    """The nodes that a slice or its devices name, without duplicates."""
    named = (slice_.spec.node_name, *(device.node_name for device in slice_.spec.devices or ()))
    return tuple(dict.fromkeys(filter(None, named)))


def labels_by_node(nodes: Iterable[Node], slices: Iterable[ResourceSlice]) -> dict[str, Mapping[str, str]]:
    """The labels of the nodes of `eligibility_nodes`, by name."""
    return {name: node.facts.labels for name, node in eligibility_nodes(nodes, slices).items()}


def excluded_nodes(pod: Pod, nodes: Mapping[str, EligibilityNode]) -> dict[str, str]:
    """Nodes on which the pod may not run, with the rule that excludes them."""
    if not _selects_nodes(pod.spec) and not any(node.taints for node in nodes.values()):
        return {}
    found = ((name, why_excluded(pod, node)) for name, node in nodes.items())
    return {name: why for name, why in found if why}


def why_excluded(pod: Pod, node: EligibilityNode) -> str:
    """The rule of the pod or taint that excludes a node; empty if the pod may run there."""
    spec, facts = pod.spec, node.facts
    if spec.node_name and spec.node_name != facts.name:
        return f"nodeName {spec.node_name}"
    unmet = {k: v for k, v in spec.node_selector.items() if facts.labels.get(k) != v}
    if unmet:
        return "nodeSelector " + ", ".join(f"{k}={v}" for k, v in unmet.items())
    affinity = required_affinity(spec)
    if affinity is not None and not matches(affinity, facts):
        return f"node affinity{_affinity_text(affinity)}"
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, spec.tolerations):
            return f"node taint {taint_text(taint)}"
    return ""


def unschedulable_nodes(
    nodes: Mapping[str, EligibilityNode], tolerations: Iterable[Toleration] = (), *, states_only: bool = False
) -> dict[str, str]:
    """Nodes to which no pod with these tolerations is scheduled, with the reason.

    Reasons are node states, such as ``cordoned``, and taints, such as ``taint dedicated=ml:NoSchedule``.
    ``states_only``: pods are assumed to tolerate all taints that do not stand for a state.
    """
    known = tuple(tolerations)
    found: dict[str, str] = {}
    for name, node in nodes.items():
        texts = [
            taint_text(taint)
            for taint in node.taints
            if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, known)
        ]
        states = dict.fromkeys(filter(None, map(_node_state, texts)))
        rest = () if states_only else (f"taint {text}" for text in texts if not _node_state(text))
        if why := ", ".join((*states, *rest)):
            found[name] = why
    return found


def taint_text(taint: Taint) -> str:
    """A taint as ``kubectl taint`` writes it: ``key=value:effect``, without ``=`` if there is no value."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


#: Node conditions by the key of the taint that Kubernetes sets.
_NODE_STATES = {
    "unschedulable": "cordoned", "not-ready": "not ready", "unreachable": "unreachable",
    "memory-pressure": "under memory pressure", "disk-pressure": "under disk pressure",
    "pid-pressure": "under PID pressure", "network-unavailable": "without network",
}  # fmt: skip


def exclusion_text(nodes: Sequence[str], why: str, having: str = "") -> str:
    """A sentence about excluded nodes, from `why_excluded`. ``having``: a node that has the pod's devices.

    >>> exclusion_text(["a"], "nodeSelector zone=b", having="a")
    "the pod's nodeSelector zone=b excludes a, which has the devices"
    >>> exclusion_text(["a"], "node taint gpu:NoSchedule")
    'a has taint gpu:NoSchedule, which the pod does not tolerate'
    >>> exclusion_text(["a", "b"], "node taint node.kubernetes.io/unschedulable:NoSchedule", having="b")
    'a, b (b has the devices) are cordoned'
    """
    is_single = len(nodes) == 1
    exception = "" if not having else ", which has the devices" if is_single else f" ({having} has the devices)"
    where = f"{first_few(nodes)}{exception}"
    taint = why.removeprefix("node taint ")
    if taint == why:
        return f"the pod's {why} excludes {where}"
    where += "," if is_single and having else ""
    if state := _node_state(taint):
        return f"{where} {'is' if is_single else 'are'} {state}"
    return f"{where} {'has' if is_single else 'have'} taint {taint}, which the pod does not tolerate"


def _node_state(taint: str) -> str:
    """The node condition for which Kubernetes sets a taint; empty for other taints."""
    prefix, _, name = taint.partition("node.kubernetes.io/")
    return "" if prefix else _NODE_STATES.get(name.partition(":")[0].partition("=")[0], "")


def _affinity_text(selector: NodeSelector) -> str:
    """A selector of one term as text, with a leading space; empty for longer selectors.

    >>> from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
    >>> zone = NodeSelectorRequirement(key="zone", operator="In", values=("a", "b"))
    >>> _affinity_text(NodeSelector((NodeSelectorTerm(match_expressions=(zone,)),)))
    ' zone in (a, b)'
    """
    match selector.node_selector_terms:
        case (NodeSelectorTerm(match_expressions=(requirement,), match_fields=()),):
            values = f" ({', '.join(requirement.values)})" if requirement.values else ""
            words = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "does not exist"}
            return f" {requirement.key} {words.get(requirement.operator, requirement.operator)}{values}"
    return ""


def daemon_node(pod: Pod) -> str:
    """The node for which a DaemonSet created the pod; empty for other pods."""
    affinity = required_affinity(pod.spec)
    match affinity.node_selector_terms if affinity is not None else ():
        case (NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", values=(name,)),)),):
            return name
    return ""


def required_affinity(spec: PodSpec) -> NodeSelector | None:
    """The node affinity that the pod requires."""
    found = spec.affinity.node_affinity if spec.affinity is not None else None
    return found.required_during_scheduling_ignored_during_execution if found is not None else None


def _selects_nodes(spec: PodSpec) -> bool:
    """Whether the pod has rules for nodes."""
    return bool(spec.node_name or spec.node_selector or required_affinity(spec))


def matches(selector: NodeSelector, facts: NodeFacts) -> bool:
    """Whether the node selector of a pod or an allocation matches a node; an invalid selector matches none."""
    try:
        return selects(selector, facts)
    except UnusableNodeSelector:
        return False


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration matches a node's taint; an empty key with Exists matches all taints."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists":
            return True
        if toleration.operator in ("", "Equal") and toleration.key and toleration.value == taint.value:
            return True
    return False
