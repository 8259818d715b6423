"""The reason why a pod without a node is pending although it would fit: its gates, or its scheduler's last message.

Rules about other pods are not evaluated here, which a note on the pods that have such rules states.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from allotment.explanation.origin_mapping import template_of
from allotment.explanation.report import Answer
from allotment.model.core import Affinity, Pod
from allotment.phrases import listed

#: The note on a pod that other rules may keep from its devices.
ONLY_DEVICES: Final = (
    "only devices and the pod's rules for nodes are considered: pod affinity, pod anti-affinity and topology spread "
    "are not (allot plan considers them)"
)
#: The start of the lines about nodes in messages of Allotment's scheduler.
_ABOUT_NODES: Final = "  node(s) "


def with_waiting_reason(answer: Answer, pod: Pod) -> Answer:
    """The answer for a pod without a node; if it would fit, with the reason why it is still pending."""
    if not answer.fits:
        return answer
    waits, notes = _waiting_reason(pod), [""]
    if waits and not pod.spec.scheduling_gates:
        notes = [shared_claim_note(answer, pod)]
    elif not waits and not pod.spec.node_name and _depends_on_other_pods(pod):
        notes = [ONLY_DEVICES, shared_claim_note(answer, pod)]
    return replace(answer, waits=waits, notes=(*answer.notes, *filter(None, notes)))


def shared_claim_note(answer: Answer, pod: Pod) -> str:
    """The advice for a pod of a workload whose pods share a claim, and so can run only on its node; otherwise empty."""
    namespace = pod.metadata.namespace
    named = {f"{namespace}/{entry.resource_claim_name}" for entry in pod.spec.resource_claims}
    shared = [claim.name for claim in answer.claims if claim.before and claim.name in named]
    if not answer.owner or not shared:
        return ""
    workload = template_of(pod, answer.owner)[0]
    return (
        f"the pods of {workload} share claim {shared[0]} and can run only where its devices are: use a "
        "ResourceClaimTemplate, which creates a claim per pod (allot rule M407)"
    )


def scheduler_sentence(message: str) -> str:
    """The reason in a scheduler's message, without the details and commands that follow it.

    >>> scheduler_sentence("claim c is on a\\n  next: allot explain pod/p\\n  node(s) had taint x: a\\n0/1 nodes ...")
    'claim c is on a; node(s) had taint x: a'
    """
    first, *more = message.splitlines() or [""]
    return "; ".join([first, *(line.strip() for line in more if line.startswith(_ABOUT_NODES))])


def _waiting_reason(pod: Pod) -> str:
    if gates := [gate.name for gate in pod.spec.scheduling_gates]:
        if len(gates) == 1:
            return f"scheduling gate {gates[0]} prevents scheduling until its owner removes it"
        return f"scheduling gates {listed(gates)} prevent scheduling until their owners remove them"
    condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    if condition is not None:
        message = condition.message or condition.reason
        if condition.status != "False" or not message:
            return ""
        return f"last message of the scheduler: {scheduler_sentence(message)}"
    known = pod.metadata.uid and pod.spec.scheduler_name
    return f"scheduler {pod.spec.scheduler_name} has not reported on the pod yet" if known else ""


def _depends_on_other_pods(pod: Pod) -> bool:
    """Whether other pods can exclude nodes for a pod."""
    affinity = pod.spec.affinity or Affinity()
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(rule is not None and rule.required_during_scheduling_ignored_during_execution for rule in rules) or any(
        spread.when_unsatisfiable == "DoNotSchedule" for spread in pod.spec.topology_spread_constraints
    )
