"""Pods whose devices are available but that are blocked for another reason."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.explanation.waiting import scheduler_sentence, shared_claim_note
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Such pods by the message of the scheduler."""
    fitting = {answer.name: answer for answer in cluster.explanation.answers if answer.kind == "Pod" and answer.fits}
    groups: dict[tuple[str, str], list[str]] = {}
    for pod in cluster.pending_pods:
        answer = fitting.get(name_of(pod))
        if answer is not None and cluster.requests_devices(pod) and (message := _message(cluster, pod)):
            groups.setdefault((message, shared_claim_note(answer, pod)), []).append(name_of(pod))
    for (message, shared), names in groups.items():
        verb = "is pending" if len(names) == 1 else "are pending"
        them = "it" if len(names) == 1 else "them"
        text = f"{pods_text(cluster, names)} {verb} although devices are available for {them}. The scheduler reports: "
        text += message
        words = "Devices are not the cause. Check CPU, memory, volumes, affinity and pods of higher priority."
        if shared:
            words = f"{shared[:1].upper()}{shared[1:]}."
        yield Symptom.of("pod", names, text, remedy(words, f"kubectl describe pod {kubectl_args(names[0])}"))


def _message(cluster: ClusterIndex, pod: Pod) -> str:
    """The scheduler's reason, from the condition PodScheduled; empty if it is recent or there is none."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason != "SchedulingGated":
            reason = scheduler_sentence(condition.message or condition.reason)
            return reason if cluster.is_old(condition.last_transition_time) else ""
    return ""


CHECK = ClusterCheck(
    code="D610",
    severity="warning",
    summary="pods are pending for a reason other than devices",
    why="Matching devices are free on a node that the pod's own constraints allow; the scheduler's last message "
    "gives another reason or is outdated.",
    find=find,
    needs=("nodes", "pods", "resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates"),
)
