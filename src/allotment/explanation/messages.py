"""Messages of conditions and events for pods without a node: the cause, the funnel, and Kubernetes' message.

The condition contains all lines. An event, which ``kubectl describe pod`` shows, is limited to 1,024 bytes: it keeps
the first line and Kubernetes' message, then the suggested changes, then the nearest miss. The funnel is omitted first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from allotment.engine.refusal import Diagnosis
from allotment.explanation.cause_key import CauseKey, cause_key
from allotment.explanation.next_step import next_step_in_message
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.text import ADVICE, NEXT, lines, opening

#: Maximum size of the note of an events.k8s.io/v1 Event in bytes.
EVENT_BYTES = 1024
#: Maximum number of lines in the message of a condition.
_CONDITION_LINES = 60
_UNFOLDED = 1_000_000

#: Prefixes of the most important lines.
_CHANGES: Final = ("  to make it fit", "  or: ", "  or, on ", ADVICE, f"  {NEXT}kubectl ")
_NEAREST: Final = ("  nearest miss: ", "  alternative ")
#: Marks omitted lines.
_GAP: Final = "  …"


class Report(NamedTuple):
    """The lines about a pending pod, the main cause first, and the key of that cause. Without lines, no cause is known
    other than that of Kubernetes' message."""

    lines: tuple[str, ...]
    cause: CauseKey


def diagnosis_lines(pod: str, reasons: Diagnosis) -> list[str]:
    """The reasons as lines: summary and code, then funnels, nearest miss and smallest change."""
    step = next_step_in_message(pod, reasons)
    answer = Answer(kind="Pod", name=pod, outcome="refused", reasons=reasons, next=step)
    first, *more = lines(Explanation(answers=(answer,)), width=_UNFOLDED)
    first = first.removeprefix(opening("Pod", pod, reasons.headline))
    return [first, *(line for line in more if not line.startswith("  Kubernetes says: "))]


def condition_message(message_lines: Sequence[str], sentence: str) -> str:
    """The message of the PodScheduled condition."""
    return "\n".join([*message_lines[:_CONDITION_LINES], sentence])


def event_note(message_lines: Sequence[str], sentence: str) -> str:
    """The note of the FailedScheduling event.

    >>> message_lines = ["no device has 80Gi (not-enough-capacity)", *["  way" * 99] * 9, "  to make it fit: x"]
    >>> event_note(message_lines, "0/1").splitlines()[-3:]
    ['  …', '  to make it fit: x', '0/1']
    """
    last = _cut(sentence, max(EVENT_BYTES // 4, EVENT_BYTES - _size("".join(message_lines[:1])) - _size(_GAP)))
    left = EVENT_BYTES - len(last.encode())
    if sum(_size(line) for line in message_lines) <= left:
        return "\n".join([*message_lines, last])
    kept: dict[int, str] = {}
    ranked = sorted(zip(_weights(message_lines), range(len(message_lines)), strict=True))
    for weight, number in ranked:
        line = message_lines[number]
        if _size(line) > left:
            if weight < _LEAST and left > (8 if number == 0 else 24):
                kept[number] = _cut(line, left - 1)
            break
        kept[number] = line
        left -= _size(line)
    for _, number in reversed(ranked[: len(kept)]):
        note = "\n".join([*_with_gaps(kept, len(message_lines)), last])
        if len(note.encode()) <= EVENT_BYTES:
            return note
        del kept[number]  # the marks of gaps also need space
    return last


def diagnosis_report(pod: str, reasons: Diagnosis) -> Report:
    """The lines of a diagnosis, with its key."""
    return Report(tuple(diagnosis_lines(pod, reasons)), cause_key(reasons))


def machine_ordered(node: str) -> Report:
    """The report on a pod for which a machine was ordered: other advice would be overtaken when the node is ready."""
    lines = (
        f"node {node} was provisioned for the pod and is not ready yet (node-not-eligible)",
        f"{ADVICE}Wait: the pod is placed once the node is initialized.",
    )
    return Report(lines, CauseKey("node-not-eligible", "ordered"))


#: The weights of lines: the first one, changes, the nearest miss, and all others.
_FIRST, _CHANGE, _MISS, _LEAST = range(4)


def _weights(message_lines: Sequence[str]) -> Iterator[int]:
    changing = False
    for number, line in enumerate(message_lines):
        changing = line.startswith(_CHANGES) or (changing and line.startswith("    "))
        if number == 0:
            yield _FIRST
        elif changing:
            yield _CHANGE
        else:
            yield _MISS if line.startswith(_NEAREST) else _LEAST


def _with_gaps(kept: dict[int, str], count: int) -> Iterator[str]:
    """Lines in order with a mark for each gap, unless the previous line already ends with the mark of a cut."""
    before = ""
    for number in range(count):
        line = kept.get(number, _GAP)
        if line != _GAP or (before and not before.endswith("…")):
            yield line
        before = line


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _cut(text: str, bytes_: int) -> str:
    """The text, cut to ``bytes_`` with a mark if it is longer."""
    if len(text.encode()) <= bytes_:
        return text
    return text.encode()[: max(bytes_ - 4, 0)].decode(errors="ignore") + " …"
