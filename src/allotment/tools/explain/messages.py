"""What a pod is told when it gets no node: the cause first, then how the devices were lost, then Kubernetes' sentence.

The condition takes it whole. An event takes 1,024 bytes, and it is what ``kubectl describe pod`` shows: in it the first
line and Kubernetes' own words stay, then comes what to change, then the nearest miss. How the devices were lost
is left out first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from allotment.engine.refusal import Change, Diagnosis, Refused
from allotment.tools.explain.report import Answer, Explanation
from allotment.tools.explain.text import ADVICE, lines, opening

#: What events.k8s.io/v1 lets a note have, in bytes.
EVENT_BYTES = 1024
#: A message that is kept whole would fill screens.
_CONDITION_LINES = 60
_UNFOLDED = 1_000_000

#: How lines begin that tell most.
_CHANGES: Final = ("  to make it fit", "  or: ", "  or, on ", ADVICE)
_NEAREST: Final = ("  nearest miss: ", "  alternative ")
#: Where lines are left out.
_GAP: Final = "  …"


def of_diagnosis(pod: str, reasons: Diagnosis, likely: Sequence[Change] = ()) -> list[str]:
    """The engine's reasons as lines: summary and code, then funnels, nearest miss and smallest change.

    Where no change is known to help, a ``likely`` one is told as advice, in place of what helps in general.
    """
    answer = Answer(kind="Pod", name=pod, outcome="refused", reasons=reasons)
    first, *more = lines(Explanation(answers=(answer,)), width=_UNFOLDED)
    first = first.removeprefix(opening("Pod", pod, reasons.headline))
    told = [first, *(line for line in more if not line.startswith("  Kubernetes says: "))]
    if likely and told[-1].startswith(ADVICE):
        first, *rest = way(likely[:1])
        told[-1:] = [f"{ADVICE}{first.partition(': ')[2]}", *rest]
    return told


def way(changes: Sequence[Change]) -> list[str]:
    """Changes alone, as lines."""
    refused = Refused(code="not-explained", summary="", changes=tuple(changes))
    return lines(Explanation(answers=(Answer("Pod", "", "refused", reasons=Diagnosis(refused)),)), width=_UNFOLDED)[1:]


def condition(told: Sequence[str], sentence: str) -> str:
    """The message of the PodScheduled condition."""
    return "\n".join([*told[:_CONDITION_LINES], sentence])


def event(told: Sequence[str], sentence: str) -> str:
    """The note of the FailedScheduling event.

    >>> told = ["no device has 80Gi (not-enough-capacity)", *["  way" * 99] * 9, "  to make it fit: ask"]
    >>> event(told, "0/1").splitlines()[-3:]
    ['  …', '  to make it fit: ask', '0/1']
    """
    last = _cut(sentence, max(EVENT_BYTES // 4, EVENT_BYTES - _size("".join(told[:1])) - _size(_GAP)))
    left = EVENT_BYTES - len(last.encode())
    if sum(_size(line) for line in told) <= left:
        return "\n".join([*told, last])
    kept: dict[int, str] = {}
    ranked = sorted(zip(_weights(told), range(len(told)), strict=True))
    for weight, number in ranked:
        line = told[number]
        if _size(line) > left:
            if weight < _LEAST and left > (8 if number == 0 else 24):
                kept[number] = _cut(line, left - 1)
            break
        kept[number] = line
        left -= _size(line)
    for _, number in reversed(ranked[: len(kept)]):
        note = "\n".join([*_with_gaps(kept, len(told)), last])
        if len(note.encode()) <= EVENT_BYTES:
            return note
        del kept[number]  # the marks of the gaps take their place, too
    return last


#: The weights of lines: the first one, what to change, the nearest miss, and all others.
_FIRST, _CHANGE, _MISS, _LEAST = range(4)


def _weights(told: Sequence[str]) -> Iterator[int]:
    changing = False
    for number, line in enumerate(told):
        changing = line.startswith(_CHANGES) or (changing and line.startswith("    "))
        if number == 0:
            yield _FIRST
        elif changing:
            yield _CHANGE
        else:
            yield _MISS if line.startswith(_NEAREST) else _LEAST


def _with_gaps(kept: dict[int, str], count: int) -> Iterator[str]:
    """Lines in order; of each gap a mark, unless the line before it shows already that something is cut."""
    before = ""
    for number in range(count):
        line = kept.get(number, _GAP)
        if line != _GAP or (before and not before.endswith("…")):
            yield line
        before = line


def _size(line: str) -> int:
    return len(line.encode()) + 1


def _cut(text: str, bytes_: int) -> str:
    """The text, or as much of it as fits with a mark that there was more."""
    if len(text.encode()) <= bytes_:
        return text
    return text.encode()[: max(bytes_ - 4, 0)].decode(errors="ignore") + " …"
