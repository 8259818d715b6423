"""What two schedulers made of a pod, and what ``explain`` says of it, held against each other and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from allotment.model.trees import Tree
from tests.kube.differing.judging import answered, code, given_by, of_other_things, same_cause
from tests.kube.differing.outcome import Outcome


def compared(counts: Counter[str], theirs: Outcome, ours: Outcome, again: bool) -> Iterator[tuple[str, str]]:
    both = f"kube-scheduler: {theirs.shown()}\n    ours:           {ours.shown()}"
    if bool(theirs.node) != bool(ours.node):
        yield ("kube-scheduler alone binds" if theirs.node else "ours alone binds"), both
    elif theirs.node:
        if theirs.victims or ours.victims:
            # Which of equal nodes it is, is chance; whether what a victim had is free by then is, too.
            counts["same victims"] += theirs.victims == ours.victims
            if theirs.node == ours.node and theirs.victims != ours.victims:
                yield "other victims", both
        elif theirs.node == ours.node:
            counts["same node"] += 1
            counts["same devices"] += theirs.given == ours.given
            if theirs.given != ours.given:
                yield "other devices", both
            elif theirs.whole != ours.whole:
                yield "other allocation", f"{theirs.whole}\n    {ours.whole}"
    elif theirs.reason != ours.reason:
        yield "other reason", both
    elif theirs.sentence != ours.sentence:
        if again:  # ours says to equal pods what it found for the first of them, while nothing helps them
            counts["sentence of an equal pod"] += 1
        elif theirs.reason == "SchedulerError":  # which of several errors is told is a matter of chance
            counts["other error"] += 1
        else:
            yield "other sentence", both
    else:
        counts["same sentence"] += 1


def explained(counts: Counter[str], pod: Tree, before: Sequence[Tree], theirs: Outcome) -> Iterator[tuple[str, str]]:
    answer = answered(pod, before, theirs.node)
    devices = f"{answer.node}: {given_by(answer)}"
    if theirs.node:
        if not answer.fits:
            yield "explain refuses", f"{theirs.shown()}\n    explain: {code(answer)}"
        elif theirs.given != given_by(answer) and not theirs.victims:
            yield "explain gives others", f"{theirs.shown()}\n    explain: {devices}"
        return
    if answer.fits and not of_other_things(theirs.sentence):
        yield "explain finds a place", f"{theirs.shown()}\n    explain: {devices}"
    elif not answer.fits:
        counts[f"cause {code(answer).partition(':')[0]}"] += 1
        if not same_cause(code(answer), theirs):
            yield "other cause", f"{theirs.shown()}\n    explain: {code(answer)}"
