"""A pod that keeps itself from every node, by selector, affinity or a taint that it does not tolerate: what to change.

Told in the words of ``allot explain``, with the smallest change that would let the pod onto the nearest node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.engine.refusal import AllocationRefusal, Diagnosis, NodeReason
from allotment.model.core import Pod
from allotment.model.trees import to_value
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import UNSCHEDULABLE, Machine
from allotment.scheduler.pods import WaitingPod
from allotment.scheduler.reporting import resource_shortage
from allotment.tools.explain import messages
from allotment.tools.explain.fixes import make_eligible
from allotment.tools.explain.node_eligibility import EligibilityNode, daemon_node, exclusion_text, why_excluded
from allotment.tools.explain.origin_mapping import easiest_fix, owner_of, template_of
from allotment.tools.explain.text import ADVICE

#: Refusals that the pod's own words, or the node's taints, are the cause of.
_CAUSES = frozenset({"unschedulable", "taint", "affinity", "name"})
#: Nodes that somebody ordered: what they are, and until when.
_CLOSED = (
    "on their way, and not complete yet",
    "nodes that were ordered take pods when all that they are to have is there.",
)
_KEPT = (
    "kept for the pods that they were ordered for",
    "they are for all when those pods are there, or after half a minute.",
)
#: Nodes for which a way in is looked for.
_TRIED = 8
Holds = Callable[[Machine], bool]
_PARTS = ("nodeName", "nodeSelector", "affinity", "tolerations")


def reasons_of(pod: WaitingPod, refused: list[tuple[Machine, Refusal]], has_devices: Holds) -> list[str]:
    """Lines as `messages.of_diagnosis` gives them; none if something else is nearer to being the cause."""
    if not refused or any(refusal.cause not in _CAUSES for _, refusal in refused):
        return []
    summary = resource_shortage.lines(pod.demand, refused)[0]
    way = way_in(pod, refused, has_devices)
    changes = way.refused.changes if way is not None else ()
    if not changes and (coming := [machine for machine, _ in refused if machine.coming]):
        closed = [machine.name for machine in coming if machine.unschedulable]
        what, until = _CLOSED if closed else _KEPT
        names = resource_shortage.named(closed or [machine.name for machine in coming])
        return [f"{what}: {names} (node-not-eligible)", f"{ADVICE}Wait: {until}"]
    return messages.diagnosis_lines(
        str(pod.key), Diagnosis(headline=AllocationRefusal(code="node-not-eligible", summary=summary, changes=changes))
    )


def way_in(pod: WaitingPod, refused: list[tuple[Machine, Refusal]], has_devices: Holds) -> NodeReason | None:
    """The node of these that the pod comes onto with the fewest changes, of those where it would have its devices."""
    good = [m for m, refusal in refused if refusal.cause in _CAUSES and not m.coming and has_devices(m)]
    value = _pod_of(pod.tree)
    where = template_of(value, owner_of(value))
    rows = []
    for machine in good[:_TRIED]:
        node = _known(machine)
        changes = make_eligible(value, node, where, bool(daemon_node(value))).changes
        summary = exclusion_text([machine.name], why_excluded(value, node), machine.name)
        told = AllocationRefusal("node-not-eligible", summary, machine.name, changes=changes)
        rows.append(NodeReason((machine.name,), told))
    return easiest_fix(rows)


def _known(machine: Machine) -> EligibilityNode:
    return EligibilityNode(machine.facts, machine.taints + ((UNSCHEDULABLE,) if machine.unschedulable else ()))


def _pod_of(tree: dict[str, Any]) -> Pod:
    """The pod as a value, as far as it speaks of nodes."""
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
