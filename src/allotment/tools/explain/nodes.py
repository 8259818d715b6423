"""Which nodes a pod may use at all, before any device is looked at: node name, selector, affinity, taints.

The rules are those of the scheduler's NodeName, NodeUnschedulable, NodeAffinity and TaintToleration filters; cpu and
memory are left out, for they are not a matter of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from allotment.engine.reach import NodeFacts, UnusableNodeSelector, selects
from allotment.model.core import Node, Pod, Taint, Toleration
from allotment.model.resource import ResourceSlice
from allotment.model.selection import NodeSelector

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


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
        taints = node.spec.taints + ((_UNSCHEDULABLE,) if node.spec.unschedulable else ())
        # The kubelet sets this label on every node; manifests written by hand leave it out.
        labels = {"kubernetes.io/hostname": name, **node.metadata.labels}
        known[name] = KnownNode(NodeFacts(name, labels), taints)
    for slice_ in slices:
        for named in (slice_.spec.node_name, *(d.node_name for d in slice_.spec.devices or ())):
            if named and named not in known:
                known[named] = KnownNode(NodeFacts(named, {"kubernetes.io/hostname": named}), given=False)
    return known


def excluded(pod: Pod, nodes: Mapping[str, KnownNode]) -> dict[str, str]:
    """Nodes that the pod itself rules out, with what rules them out."""
    spec = pod.spec
    required = spec.affinity.node_affinity if spec.affinity is not None else None
    affinity = required.required_during_scheduling_ignored_during_execution if required is not None else None
    if not (spec.node_name or spec.node_selector or affinity or any(node.taints for node in nodes.values())):
        return {}
    found: dict[str, str] = {}
    for name, node in nodes.items():
        if spec.node_name and spec.node_name != name:
            found[name] = f"nodeName {spec.node_name}"
            continue
        missing = {k: v for k, v in spec.node_selector.items() if node.facts.labels.get(k) != v}
        if missing:
            found[name] = "nodeSelector " + ", ".join(f"{k}={v}" for k, v in missing.items())
            continue
        if affinity is not None and not _matches(affinity, node.facts):
            found[name] = "node affinity"
            continue
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, spec.tolerations):
                found[name] = f"node taint {taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
                break
    return found


def _matches(affinity: NodeSelector, facts: NodeFacts) -> bool:
    try:
        return selects(affinity, facts)
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
