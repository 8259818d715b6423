"""Which nodes a pod may use at all, before any device is looked at: node name, selector, affinity, taints.

The rules are those of the scheduler's NodeName, NodeUnschedulable, NodeAffinity and TaintToleration filters; cpu and
memory are left out, for they are not a matter of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from allotment.engine.cluster.node_selection import NodeFacts, UnusableNodeSelector, selects
from allotment.model.core import HOSTNAME_LABEL, Node, Pod, PodSpec, Taint, Toleration
from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from allotment.model.resource import ResourceSlice
from allotment.phrases import first_few

#: What a cordoned node has.
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class KnownNode(NamedTuple):
    """A node. One that only slices name has neither labels nor taints, and ``given`` is false."""

    facts: NodeFacts
    taints: tuple[Taint, ...] = ()
    given: bool = True


def known_nodes(nodes: Iterable[Node], slices: Iterable[ResourceSlice]) -> dict[str, KnownNode]:
    """Nodes that were given, then those that slices name, in that order."""
    known: dict[str, KnownNode] = {}
    for node in nodes:
        name = node.metadata.name
        taints = node.spec.taints
        if node.spec.unschedulable:  # a controller may have said it by a taint already
            taints = (*(taint for taint in taints if taint.key != UNSCHEDULABLE.key), UNSCHEDULABLE)
        labels = {HOSTNAME_LABEL: name, **node.metadata.labels}
        known[name] = KnownNode(NodeFacts(name, labels), taints)
    for slice_ in slices:
        for name in nodes_of(slice_):
            known.setdefault(name, KnownNode(NodeFacts(name, {HOSTNAME_LABEL: name}), given=False))
    return known


def nodes_of(slice_: ResourceSlice) -> tuple[str, ...]:
    """The nodes that a slice names, itself or by its devices, each once."""
    named = (slice_.spec.node_name, *(device.node_name for device in slice_.spec.devices or ()))
    return tuple(dict.fromkeys(filter(None, named)))


def labels_by_node(nodes: Iterable[Node], slices: Iterable[ResourceSlice]) -> dict[str, Mapping[str, str]]:
    """The labels of the same nodes."""
    return {name: node.facts.labels for name, node in known_nodes(nodes, slices).items()}


def excluded(pod: Pod, nodes: Mapping[str, KnownNode]) -> dict[str, str]:
    """Nodes that the pod itself rules out, with what rules them out."""
    if not _particular(pod.spec) and not any(node.taints for node in nodes.values()):
        return {}
    found = ((name, why_excluded(pod, node)) for name, node in nodes.items())
    return {name: why for name, why in found if why}


def why_excluded(pod: Pod, node: KnownNode) -> str:
    """What of the pod rules a node out; empty if it may go there."""
    spec, facts = pod.spec, node.facts
    if spec.node_name and spec.node_name != facts.name:
        return f"nodeName {spec.node_name}"
    unmet = {k: v for k, v in spec.node_selector.items() if facts.labels.get(k) != v}
    if unmet:
        return "nodeSelector " + ", ".join(f"{k}={v}" for k, v in unmet.items())
    affinity = _required(spec)
    if affinity is not None and not matches(affinity, facts):
        return f"node affinity{_worded(affinity)}"
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, spec.tolerations):
            return f"node taint {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
    return ""


#: What Kubernetes itself says of a node by a taint.
_STATES = {
    "unschedulable": "cordoned", "not-ready": "not ready", "unreachable": "unreachable",
    "memory-pressure": "under memory pressure", "disk-pressure": "under disk pressure",
    "pid-pressure": "under PID pressure", "network-unavailable": "without network",
}  # fmt: skip


def kept_off(nodes: Sequence[str], why: str, having: str = "") -> str:
    """The sentence for nodes that a pod may not go to, from `why_excluded`. ``having``: one that has its devices.

    >>> kept_off(["a"], "nodeSelector zone=b", having="a")
    "the pod's nodeSelector zone=b keeps it off a, which has the devices"
    >>> kept_off(["a"], "node taint gpu:NoSchedule")
    'a has taint gpu:NoSchedule, which the pod does not tolerate'
    >>> kept_off(["a", "b"], "node taint node.kubernetes.io/unschedulable:NoSchedule", having="b")
    'a, b (b has the devices) are cordoned'
    """
    one = len(nodes) == 1
    which = "" if not having else ", which has the devices" if one else f" ({having} has the devices)"
    where = f"{first_few(nodes)}{which}"
    taint = why.removeprefix("node taint ")
    if taint == why:
        return f"the pod's {why} keeps it off {where}"
    where += "," if one and having else ""
    state = _STATES.get(taint.removeprefix("node.kubernetes.io/").partition(":")[0].partition("=")[0])
    if state is not None and taint.startswith("node.kubernetes.io/"):
        return f"{where} {'is' if one else 'are'} {state}"
    return f"{where} {'has' if one else 'have'} taint {taint}, which the pod does not tolerate"


def _worded(selector: NodeSelector) -> str:
    """A selector of one term in words, with a leading space; empty for one that is no short sentence.

    >>> from allotment.model.node_selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
    >>> zone = NodeSelectorRequirement(key="zone", operator="In", values=("a", "b"))
    >>> _worded(NodeSelector((NodeSelectorTerm(match_expressions=(zone,)),)))
    ' zone in (a, b)'
    """
    match selector.node_selector_terms:
        case (NodeSelectorTerm(match_expressions=(one,), match_fields=()),):
            values = f" ({', '.join(one.values)})" if one.values else ""
            words = {"In": "in", "NotIn": "not in", "Exists": "exists", "DoesNotExist": "does not exist"}
            return f" {one.key} {words.get(one.operator, one.operator)}{values}"
    return ""


def served_node(pod: Pod) -> str:
    """The node that a DaemonSet made the pod for; empty for other pods."""
    affinity = _required(pod.spec)
    match affinity.node_selector_terms if affinity is not None else ():
        case (NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", values=(name,)),)),):
            return name
    return ""


def _required(spec: PodSpec) -> NodeSelector | None:
    found = spec.affinity.node_affinity if spec.affinity is not None else None
    return found.required_during_scheduling_ignored_during_execution if found is not None else None


def _particular(spec: PodSpec) -> bool:
    """Whether the pod says anything of nodes."""
    return bool(spec.node_name or spec.node_selector or _required(spec))


def matches(selector: NodeSelector, facts: NodeFacts) -> bool:
    """Whether a pod's or an allocation's selector matches a node; one that cannot be read matches none."""
    try:
        return selects(selector, facts)
    except UnusableNodeSelector:
        return False


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether any toleration covers a node's taint; an empty key with Exists covers all."""
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
