"""Explains a pod that its own selector, affinity or missing tolerations exclude from every node.

Uses the wording of ``allot explain``, with the smallest change that lets the pod onto the nearest node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.engine.refusal import AllocationRefusal, Diagnosis, NodeReason
from allotment.model.core import Pod
from allotment.model.trees import to_value
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import UNSCHEDULABLE, CachedNode
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.reporting import resource_shortage
from allotment.tools.explain import messages
from allotment.tools.explain.fixes import make_eligible
from allotment.tools.explain.node_eligibility import EligibilityNode, daemon_node, exclusion_text, why_excluded
from allotment.tools.explain.origin_mapping import easiest_fix, owner_of, template_of
from allotment.tools.explain.text import ADVICE

#: Causes that lie in the pod's own constraints or in the node's taints.
_EXCLUSION_CAUSES = frozenset({"unschedulable", "taint", "affinity", "name"})
#: The state of nodes that an autoscaler ordered, and how long it lasts.
_INITIALIZING = ("not ready yet", "provisioned nodes accept pods once they are initialized.")
_RESERVED = (
    "newly provisioned, and reserved for other pods",
    "the nodes accept all pods once those pods are bound, or after 30 seconds.",
)
#: Maximum number of nodes for which changes are searched.
_MAX_TRIED = 8
Holds = Callable[[CachedNode], bool]
_PARTS = ("nodeName", "nodeSelector", "affinity", "tolerations")


def exclusion_lines(pod: QueuedPod, refused: list[tuple[CachedNode, Refusal]], has_devices: Holds) -> list[str]:
    """Return the lines of `messages.diagnosis_lines`; empty if another cause is more relevant."""
    if not refused or any(refusal.cause not in _EXCLUSION_CAUSES for _, refusal in refused):
        return []
    summary = resource_shortage.shortage_lines(pod.demand, refused)[0]
    way = nearest_node(pod, refused, has_devices)
    changes = way.refused.changes if way is not None else ()
    if not changes and (coming := [machine for machine, _ in refused if machine.is_provisioning]):
        closed = [machine.name for machine in coming if machine.unschedulable]
        state, until = _INITIALIZING if closed else _RESERVED
        names = resource_shortage.summarize_names(closed or [machine.name for machine in coming])
        return [f"{state}: {names} (node-not-eligible)", f"{ADVICE}Wait: {until}"]
    return messages.diagnosis_lines(
        str(pod.key), Diagnosis(headline=AllocationRefusal(code="node-not-eligible", summary=summary, changes=changes))
    )


def nearest_node(pod: QueuedPod, refused: list[tuple[CachedNode, Refusal]], has_devices: Holds) -> NodeReason | None:
    """Return the node that the pod can use with the fewest changes, among those that have its devices."""
    good = [
        m for m, refusal in refused if refusal.cause in _EXCLUSION_CAUSES and not m.is_provisioning and has_devices(m)
    ]
    value = pod_of(pod.tree)
    where = template_of(value, owner_of(value))
    rows = []
    for machine in good[:_MAX_TRIED]:
        node = _eligibility_node(machine)
        changes = make_eligible(value, node, where, bool(daemon_node(value))).changes
        summary = exclusion_text([machine.name], why_excluded(value, node), machine.name)
        reason = AllocationRefusal("node-not-eligible", summary, machine.name, changes=changes)
        rows.append(NodeReason((machine.name,), reason))
    return easiest_fix(rows)


def _eligibility_node(machine: CachedNode) -> EligibilityNode:
    return EligibilityNode(machine.facts, machine.taints + ((UNSCHEDULABLE,) if machine.unschedulable else ()))


def pod_of(tree: dict[str, Any]) -> Pod:
    """Return the pod as a value, with the fields that concern nodes."""
    metadata, spec = tree["metadata"], tree["spec"]
    owners = [{k: v for k, v in o.items() if v is not None} for o in metadata.get("ownerReferences") or ()]
    return to_value(
        {
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "labels": metadata.get("labels") or {},
                "ownerReferences": owners,
            },
            "spec": {name: spec[name] for name in _PARTS if spec.get(name) is not None},
        },
        Pod,
    )
