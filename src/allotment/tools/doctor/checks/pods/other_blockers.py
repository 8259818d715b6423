"""Pods that could have their devices and wait for something else."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import of, remedy
from allotment.tools.doctor.workload_groups import crowd


def find(case: Case) -> Iterable[Sign]:
    """By what the scheduler said."""
    fitting = {answer.name for answer in case.explanation.answers if answer.kind == "Pod" and answer.fits}
    alike: dict[str, list[str]] = {}
    for pod in case.waiting:
        if name_of(pod) in fitting and case.asks_for_devices(pod) and (message := _said(case, pod)):
            alike.setdefault(message, []).append(name_of(pod))
    for message, names in alike.items():
        verb = "waits" if len(names) == 1 else "wait"
        said = "; ".join(message.splitlines())
        text = f"{crowd(case, names)} {verb} though devices would be there for it. The scheduler says: {said}"
        words = "It is something else than devices: processors, memory, volumes, affinity, or pods of higher priority."
        yield Sign.of("pod", names, text, remedy(words, f"kubectl describe pod {of(names[0])}"))


def _said(case: Case, pod: Pod) -> str:
    """What keeps the pod for longer than a moment, in the scheduler's words."""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "False" and one.reason != "SchedulingGated":
            return (one.message or one.reason) if case.is_old(one.last_transition_time) else ""
    return ""


CHECK = Check(
    code="D610",
    severity="warning",
    summary="pods wait for something else than the devices they ask for",
    why="Devices that match are free, on a node that the pod's own rules allow; what the scheduler said last is"
    " another reason, or an old one.",
    find=find,
    needs=("nodes", "pods", "resourceclaims", "resourceslices", "deviceclasses", "resourceclaimtemplates"),
)
