"""Pods that could have their devices and wait for something else."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """By what the scheduler said."""
    fitting = {answer.name for answer in cluster.explanation.answers if answer.kind == "Pod" and answer.fits}
    groups: dict[str, list[str]] = {}
    for pod in cluster.pending_pods:
        if name_of(pod) in fitting and cluster.requests_devices(pod) and (message := _said(cluster, pod)):
            groups.setdefault(message, []).append(name_of(pod))
    for message, names in groups.items():
        verb = "waits" if len(names) == 1 else "wait"
        message_ = "; ".join(message.splitlines())
        text = f"{pods_text(cluster, names)} {verb} though devices would be there for it. The scheduler says: {message_}"
        words = "It is something else than devices: processors, memory, volumes, affinity, or pods of higher priority."
        yield Symptom.of("pod", names, text, remedy(words, f"kubectl describe pod {kubectl_args(names[0])}"))


def _said(cluster: ClusterIndex, pod: Pod) -> str:
    """What keeps the pod for longer than a moment, in the scheduler's words."""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "False" and one.reason != "SchedulingGated":
            return (one.message or one.reason) if cluster.is_old(one.last_transition_time) else ""
    return ""


CHECK = ClusterCheck(
    code="D610",
    severity="warning",
    summary="pods wait for something else than the devices they ask for",
    why="Devices that match are free, on a node that the pod's own rules allow; what the scheduler said last is"
    " another reason, or an old one.",
    find=find,
    needs=("nodes", "pods", "resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates"),
)
