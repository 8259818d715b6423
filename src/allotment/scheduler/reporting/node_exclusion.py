"""Explains a pod that its own selector, affinity or missing tolerations exclude from every node.

Uses the wording of ``allot explain``, with the smallest change that lets the pod onto the nearest node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from allotment.engine.refusal import AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import LossClass, distance
from allotment.explanation.cause_key import CauseKey
from allotment.explanation.further_changes import NO_LIMIT, AfterChange, LossLimit, combined_changes
from allotment.explanation.messages import Report, diagnosis_report
from allotment.explanation.node_eligibility import exclusion_text, why_excluded
from allotment.explanation.origin_mapping import easiest_fix
from allotment.explanation.text import ADVICE
from allotment.model.core import Pod
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.nodes import CachedNode
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.reporting import resource_shortage
from allotment.scheduler.reporting.node_rules import NodeRules, eligibility_node
from allotment.scheduler.reporting.pod_value import pod_of

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


def exclusion_report(
    pod: QueuedPod, refused: list[tuple[CachedNode, Refusal]], would_do: WouldDo, of_claims: OfClaims, rules: NodeRules
) -> Report | None:
    """Return the report on the exclusion; None if another cause is more relevant."""
    if not refused or any(refusal.cause not in _EXCLUSION_CAUSES for _, refusal in refused):
        return None
    summary = resource_shortage.kinds_of_refusals(pod.demand, refused)[0].line
    way = nearest_node(refused, would_do, rules)
    changes = nearest_changes(refused, way, of_claims, rules)
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
    refused: list[tuple[CachedNode, Refusal]], way: NodeReason | None, of_claims: OfClaims, rules: NodeRules
) -> tuple[SuggestedChange, ...]:
    """Return the changes for the ``way`` that was found, or those of the pod's rules and its claims together if they
    are nearer: if there is none, if it drops a rule, or if it is uncertain when a node that is not ready recovers."""
    changes = way.refused.changes if way is not None else ()
    if way is not None and not is_far(way):
        return changes
    combined = with_claims(refused, of_claims, rules)
    return min(filter(None, (changes, combined)), key=lambda found: distance(c.remedy for c in found), default=())


def is_far(way: NodeReason) -> bool:
    """Return whether other changes may be nearer: a rule for nodes is dropped, or a node must recover first."""
    changes = way.refused.changes
    return distance(c.remedy for c in changes).loss >= LossClass.FEWER or any(c.remedy == "recover" for c in changes)


def with_claims(
    refused: list[tuple[CachedNode, Refusal]],
    of_claims: OfClaims,
    rules: NodeRules,
    limit: LossLimit = NO_LIMIT,
    *,
    ended: bool = False,
) -> tuple[SuggestedChange, ...]:
    """Return changes of the pod's rules for nodes, or of a node, and of its claims, that help together.

    ``ended``: an error on an eligible node ends the attempt until the claims are corrected.
    """
    excluded = [m for m, refusal in refused if refusal.cause in _EXCLUSION_CAUSES and not m.is_provisioning]
    groups = rules.groups(excluded)
    nodes = {node.facts.name: node for group in groups for node in group}

    def of_rules(name: str) -> tuple[SuggestedChange, ...]:
        return rules.changes(nodes[name])

    def after(correction: SuggestedChange) -> AfterChange:
        return AfterChange(further=of_rules(correction.node))

    names = ([node.facts.name for node in group] for group in groups)
    return combined_changes(names, of_claims, of_rules if not ended else lambda _: (), limit, after)


def reason_of(pod: Pod, refused: list[tuple[CachedNode, Refusal]], changes: tuple[SuggestedChange, ...]) -> NodeReason:
    """Return the reason why the node of changes is excluded."""
    name = changes[0].node
    machine = next(machine for machine, _ in refused if machine.name == name)
    summary = exclusion_text([name], why_excluded(pod, eligibility_node(machine)), "")
    return NodeReason((name,), AllocationRefusal("node-not-eligible", summary, name, changes=changes))


def eligible_nodes(pod: QueuedPod, machines: Iterable[CachedNode]) -> list[str]:
    """Return the nodes that the pod's rules, cordons and taints do not exclude."""
    value = pod_of(pod.tree)
    return [machine.name for machine in machines if not why_excluded(value, eligibility_node(machine))]


def cordoned_node(
    refused: list[tuple[CachedNode, Refusal]], would_do: WouldDo, rules: NodeRules, *, has_devices: bool
) -> NodeReason | None:
    """Return a node that only its cordon excludes, while other nodes lack something else; None if there is none."""
    cordoned = [(machine, refusal) for machine, refusal in refused if refusal.cause == "unschedulable"]
    way = nearest_node(cordoned, would_do, rules, has_devices=has_devices)
    return way if way is not None and all(change.remedy == "uncordon" for change in way.refused.changes) else None


def nearest_node(
    refused: list[tuple[CachedNode, Refusal]], would_do: WouldDo, rules: NodeRules, *, has_devices: bool = True
) -> NodeReason | None:
    """Return the node that the pod can use with the fewest changes, among those that would do then.

    ``has_devices``: whether the pod has claims, so that the reason says that the node has the devices.
    """
    good = [m for m, refusal in refused if refusal.cause in _EXCLUSION_CAUSES and not m.is_provisioning and would_do(m)]
    rows = []
    for node in islice(rules.with_devices(good), _MAX_TRIED):
        name = node.facts.name
        summary = exclusion_text([name], why_excluded(rules.pod, node), name if has_devices else "")
        reason = AllocationRefusal("node-not-eligible", summary, name, changes=rules.changes(node))
        rows.append(NodeReason((name,), reason))
    return easiest_fix(rows)


def excluded_nodes(pod: QueuedPod, machines: Iterable[CachedNode]) -> list[tuple[CachedNode, Refusal]]:
    """Return the nodes that the pod's rules, cordons and taints exclude, if filters have not been run on them."""
    value, refusal = pod_of(pod.tree), Refusal((), cause="affinity")
    return [(machine, refusal) for machine in machines if why_excluded(value, eligibility_node(machine))]
