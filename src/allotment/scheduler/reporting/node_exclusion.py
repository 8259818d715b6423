"""Explains a pod that its own selector, affinity or missing tolerations exclude from every node.

Uses the wording of ``allot explain``, with the smallest change that lets the pod onto the nearest node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from allotment.engine.refusal import AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import LossClass, distance
from allotment.explanation.cause_key import CauseKey
from allotment.explanation.fixes import make_eligible
from allotment.explanation.further_changes import NO_LIMIT, AfterChange, LossLimit, combined_changes
from allotment.explanation.messages import Report, diagnosis_report
from allotment.explanation.node_eligibility import EligibilityNode, daemon_node, exclusion_text, why_excluded
from allotment.explanation.node_nearness import NamedHardware, by_nearness, named_hardware
from allotment.explanation.origin_mapping import easiest_fix, owner_of, template_of
from allotment.explanation.text import ADVICE
from allotment.model.core import Pod
from allotment.model.trees import Tree, to_value
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import UNSCHEDULABLE, CachedNode
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.reporting import resource_shortage

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
#: Whether a pod fits on a node, apart from what excludes it.
WouldDo = Callable[[CachedNode], bool]
#: Returns the changes after which a pod's claims fit on one of some nodes; see `combined_changes`.
OfClaims = Callable[[Sequence[str]], tuple[SuggestedChange, ...]]
_PARTS = ("nodeName", "nodeSelector", "affinity", "tolerations")
_CONTAINERS = ("initContainers", "containers")


def exclusion_report(
    pod: QueuedPod,
    refused: list[tuple[CachedNode, Refusal]],
    would_do: WouldDo,
    of_claims: OfClaims,
    hardware: NamedHardware,
) -> Report | None:
    """Return the report on the exclusion; None if another cause is more relevant. ``hardware``: see `hardware_of`."""
    if not refused or any(refusal.cause not in _EXCLUSION_CAUSES for _, refusal in refused):
        return None
    summary = resource_shortage.kinds_of_refusals(pod.demand, refused)[0].line
    way = nearest_node(pod, refused, would_do, hardware)
    changes = nearest_changes(pod, refused, way, of_claims, hardware)
    if not changes and (coming := [machine for machine, _ in refused if machine.is_provisioning]):
        closed = [machine.name for machine in coming if machine.unschedulable]
        state, until = _INITIALIZING if closed else _RESERVED
        names = resource_shortage.summarize_names(closed or [machine.name for machine in coming])
        lines = (f"{state}: {names} (node-not-eligible)", f"{ADVICE}Wait: {until}")
        return Report(lines, CauseKey("node-not-eligible", state))
    return diagnosis_report(
        str(pod.key), Diagnosis(headline=AllocationRefusal(code="node-not-eligible", summary=summary, changes=changes))
    )


def nearest_changes(
    pod: QueuedPod,
    refused: list[tuple[CachedNode, Refusal]],
    way: NodeReason | None,
    of_claims: OfClaims,
    hardware: NamedHardware,
) -> tuple[SuggestedChange, ...]:
    """Return the changes for the ``way`` that was found, or those of the pod's rules and its claims together if they
    are nearer: if there is none, if it drops a rule, or if it is uncertain when a node that is not ready recovers."""
    changes = way.refused.changes if way is not None else ()
    if way is not None and not is_far(way):
        return changes
    combined = with_claims(pod, refused, of_claims, hardware)
    return min(filter(None, (changes, combined)), key=lambda found: distance(c.remedy for c in found), default=())


def is_far(way: NodeReason) -> bool:
    """Return whether other changes may be nearer: a rule for nodes is dropped, or a node must recover first."""
    changes = way.refused.changes
    return distance(c.remedy for c in changes).loss >= LossClass.FEWER or any(c.remedy == "recover" for c in changes)


def with_claims(
    pod: QueuedPod,
    refused: list[tuple[CachedNode, Refusal]],
    of_claims: OfClaims,
    hardware: NamedHardware,
    limit: LossLimit = NO_LIMIT,
    *,
    ended: bool = False,
) -> tuple[SuggestedChange, ...]:
    """Return changes of the pod's rules for nodes, or of a node, and of its claims, that help together.

    ``ended``: an error on an eligible node ends the attempt until the claims are corrected.
    """
    value = pod_of(pod.tree)
    where = template_of(value, owner_of(value))
    nodes = {m.name: _eligibility_node(m) for m, r in refused if r.cause in _EXCLUSION_CAUSES and not m.is_provisioning}
    groups = ([node.facts.name for node in group] for group in by_nearness(value, nodes.values(), hardware))
    is_daemon = bool(daemon_node(value))

    def of_rules(name: str) -> tuple[SuggestedChange, ...]:
        return make_eligible(value, nodes[name], where, is_daemon, hardware).changes

    def after(correction: SuggestedChange) -> AfterChange:
        return AfterChange(further=of_rules(correction.node))

    return combined_changes(groups, of_claims, of_rules if not ended else lambda _: (), limit, after)


def reason_of(
    pod: QueuedPod, refused: list[tuple[CachedNode, Refusal]], changes: tuple[SuggestedChange, ...]
) -> NodeReason:
    """Return the reason why the node of changes is excluded."""
    name, value = changes[0].node, pod_of(pod.tree)
    machine = next(machine for machine, _ in refused if machine.name == name)
    summary = exclusion_text([name], why_excluded(value, _eligibility_node(machine)), "")
    return NodeReason((name,), AllocationRefusal("node-not-eligible", summary, name, changes=changes))


def eligible_nodes(pod: QueuedPod, machines: Iterable[CachedNode]) -> list[str]:
    """Return the nodes that the pod's rules, cordons and taints do not exclude."""
    value = pod_of(pod.tree)
    return [machine.name for machine in machines if not why_excluded(value, _eligibility_node(machine))]


def cordoned_node(
    pod: QueuedPod,
    refused: list[tuple[CachedNode, Refusal]],
    would_do: WouldDo,
    hardware: NamedHardware,
    *,
    has_devices: bool,
) -> NodeReason | None:
    """Return a node that only its cordon excludes, while other nodes lack something else; None if there is none."""
    cordoned = [(machine, refusal) for machine, refusal in refused if refusal.cause == "unschedulable"]
    way = nearest_node(pod, cordoned, would_do, hardware, has_devices=has_devices)
    return way if way is not None and all(change.remedy == "uncordon" for change in way.refused.changes) else None


def nearest_node(
    pod: QueuedPod,
    refused: list[tuple[CachedNode, Refusal]],
    would_do: WouldDo,
    hardware: NamedHardware,
    *,
    has_devices: bool = True,
) -> NodeReason | None:
    """Return the node that the pod can use with the fewest changes, among those that would do then.

    ``has_devices``: whether the pod has claims, so that the reason says that the node has the devices.
    """
    good = [m for m, refusal in refused if refusal.cause in _EXCLUSION_CAUSES and not m.is_provisioning and would_do(m)]
    value = pod_of(pod.tree)
    where = template_of(value, owner_of(value))
    rows = []
    groups = by_nearness(value, map(_eligibility_node, good), hardware)
    for node in list(chain.from_iterable(groups))[:_MAX_TRIED]:
        name = node.facts.name
        changes = make_eligible(value, node, where, bool(daemon_node(value)), hardware).changes
        summary = exclusion_text([name], why_excluded(value, node), name if has_devices else "")
        reason = AllocationRefusal("node-not-eligible", summary, name, changes=changes)
        rows.append(NodeReason((name,), reason))
    return easiest_fix(rows)


def excluded_nodes(pod: QueuedPod, machines: Iterable[CachedNode]) -> list[tuple[CachedNode, Refusal]]:
    """Return the nodes that the pod's rules, cordons and taints exclude, if filters have not been run on them."""
    value, refusal = pod_of(pod.tree), Refusal((), cause="affinity")
    return [(machine, refusal) for machine in machines if why_excluded(value, _eligibility_node(machine))]


def hardware_of(
    pod: QueuedPod, machines: Iterable[CachedNode], models: Callable[[], Mapping[str, frozenset[str]]]
) -> NamedHardware:
    """Return the hardware of the nodes that the pod's rules name. ``models``: see `models_by_node`."""
    return named_hardware(pod_of(pod.tree), map(_eligibility_node, machines), models)


def _eligibility_node(machine: CachedNode) -> EligibilityNode:
    return EligibilityNode(machine.facts, machine.taints + ((UNSCHEDULABLE,) if machine.unschedulable else ()))


def pod_of(tree: dict[str, Any]) -> Pod:
    """Return the pod as a value, with the fields that concern nodes and extended resources."""
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
            "spec": {
                **{name: spec[name] for name in _PARTS if spec.get(name) is not None},
                **{name: [_with_resources(container) for container in spec.get(name) or ()] for name in _CONTAINERS},
            },
        },
        Pod,
    )


def _with_resources(container: Tree) -> Tree:
    """The container with its name and the amounts that it requests."""
    resources = container.get("resources") or {}
    amounts = {field: resources.get(field) or {} for field in ("limits", "requests")}
    return {"name": container["name"], "resources": amounts}
