"""What else keeps a pod waiting that would get its devices: a gate, what its scheduler said, a scheduler that is mute.

Devices are all that is tried here. A pod that lacks processors would otherwise be told that it fits, and nothing else.
"""

from __future__ import annotations

from msgspec.structs import replace

from allotment.model.core import Pod
from allotment.tools.explain.report import Answer
from allotment.tools.sentences import listed


def noted(answer: Answer, pod: Pod) -> Answer:
    """The answer for a pod without a node; if it would fit, with what is known of why it waits all the same."""
    return replace(answer, waits=_held(pod)) if answer.fits else answer


def _held(pod: Pod) -> str:
    if gates := [gate.name for gate in pod.spec.scheduling_gates]:
        held = f"scheduling gate{'s' * (len(gates) > 1)} {listed(gates)}"
        return f"no scheduler looks at it while it has {held}; to be removed by whoever set it"
    told = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if told is not None:
        words = told.message or told.reason
        return f"its scheduler said last: {'; '.join(words.splitlines())}" if told.status == "False" and words else ""
    known = pod.metadata.uid and pod.spec.scheduler_name
    return f"scheduler {pod.spec.scheduler_name} has said nothing of it yet" if known else ""
