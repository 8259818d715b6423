"""Compares the outcomes of two schedulers for a pod with each other and with ``explain``, and counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from allotment.model.trees import Tree
from tests.kube.differential.differences import cause_of, devices_of, explain_pod, has_other_reasons, same_cause
from tests.kube.differential.outcome import Outcome


def compare_schedulers(
    counts: Counter[str], kube: Outcome, allotment: Outcome, again: bool
) -> Iterator[tuple[str, str]]:
    both = f"kube-scheduler: {kube.text()}\n    allotment:      {allotment.text()}"
    if bool(kube.node) != bool(allotment.node):
        yield ("kube-scheduler alone binds" if kube.node else "allotment alone binds"), both
    elif kube.node:
        if kube.victims or allotment.victims:
            # Which of equal nodes is chosen is random; whether the victims' devices are free by then is, too.
            counts["same victims"] += kube.victims == allotment.victims
            if kube.node == allotment.node and kube.victims != allotment.victims:
                yield "other victims", both
        elif kube.node == allotment.node:
            counts["same node"] += 1
            counts["same devices"] += kube.devices == allotment.devices
            if kube.devices != allotment.devices:
                yield "other devices", both
            elif kube.allocations != allotment.allocations:
                yield "other allocation", f"{kube.allocations}\n    {allotment.allocations}"
    elif kube.reason != allotment.reason:
        yield "other reason", both
    elif kube.sentence != allotment.sentence:
        if again:  # Allotment gives equal pods the message of the first one until an event helps them
            counts["sentence of an equal pod"] += 1
        elif kube.reason == "SchedulerError":  # which of several errors is reported is random
            counts["other error"] += 1
        else:
            yield "other sentence", both
    else:
        counts["same sentence"] += 1


def compare_explanation(
    counts: Counter[str], pod: Tree, before: Sequence[Tree], kube: Outcome
) -> Iterator[tuple[str, str]]:
    answer = explain_pod(pod, before, kube.node)
    devices = f"{answer.node}: {devices_of(answer)}"
    if kube.node:
        if not answer.fits:
            yield "explain refuses", f"{kube.text()}\n    explain: {cause_of(answer)}"
        elif kube.devices != devices_of(answer) and not kube.victims:
            yield "explain gives others", f"{kube.text()}\n    explain: {devices}"
        return
    if answer.fits and not has_other_reasons(kube.sentence):
        yield "explain finds a place", f"{kube.text()}\n    explain: {devices}"
    elif not answer.fits:
        counts[f"cause {cause_of(answer).partition(':')[0]}"] += 1
        if not same_cause(cause_of(answer), kube):
            yield "other cause", f"{kube.text()}\n    explain: {cause_of(answer)}"
