"""What a pod is told when it gets no node: the cause first, then how the devices were lost, then Kubernetes' sentence.

The condition takes it whole. An event takes 1,024 bytes, so that what is in the middle is cut there, never the first
line and never Kubernetes' own words.
"""

from __future__ import annotations

from collections.abc import Sequence

from allotment.engine.refusal import Diagnosis
from allotment.tools.explain.report import Answer, Explanation
from allotment.tools.explain.text import lines

#: What events.k8s.io/v1 lets a note have, in bytes.
EVENT_BYTES = 1024
#: A message that is kept whole would fill screens.
_CONDITION_LINES = 60
_UNFOLDED = 1_000_000


def of_diagnosis(pod: str, reasons: Diagnosis) -> list[str]:
    """The engine's reasons as lines: summary and code, then funnels, nearest miss and smallest change."""
    answer = Answer(kind="Pod", name=pod, outcome="refused", reasons=reasons)
    first, *more = lines(Explanation(answers=(answer,)), width=_UNFOLDED)
    first = first.removeprefix(f"Pod {pod} does not fit: ")
    return [first, *(line for line in more if not line.startswith("  Kubernetes says: "))]


def condition(told: Sequence[str], sentence: str) -> str:
    """The message of the PodScheduled condition."""
    return "\n".join([*told[:_CONDITION_LINES], sentence])


def event(told: Sequence[str], sentence: str) -> str:
    """The note of the FailedScheduling event.

    >>> event(["no device has 80Gi (capacity-too-small)", "  lines " * 400], "0/1 nodes are available: …").count(
    ...     chr(10)
    ... )
    2
    """
    kept: list[str] = []
    left = EVENT_BYTES - len(_cut(sentence, EVENT_BYTES).encode()) - 1
    for number, line in enumerate(told):
        size = len(line.encode()) + 1
        if size > left:
            room = left - 1
            if room > 24 or (number == 0 and room > 8):
                kept.append(_cut(line, room))
            break
        kept.append(line)
        left -= size
    return "\n".join([*kept, _cut(sentence, EVENT_BYTES)])


def _cut(text: str, bytes_: int) -> str:
    """The text, or as much of it as fits with a mark that there was more."""
    if len(text.encode()) <= bytes_:
        return text
    return text.encode()[: max(bytes_ - 4, 0)].decode(errors="ignore") + " …"
