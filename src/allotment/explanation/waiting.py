"""The reason why a pod without a node is pending although it would fit: its gates, or its scheduler's last message."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.explanation.report import Answer
from allotment.model.core import Pod
from allotment.phrases import listed


def with_waiting_reason(answer: Answer, pod: Pod) -> Answer:
    """The answer for a pod without a node; if it would fit, with the reason why it is still pending."""
    return replace(answer, waits=_waiting_reason(pod)) if answer.fits else answer


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
        return f"last message of the scheduler: {'; '.join(message.splitlines())}"
    known = pod.metadata.uid and pod.spec.scheduler_name
    return f"scheduler {pod.spec.scheduler_name} has not reported on the pod yet" if known else ""
