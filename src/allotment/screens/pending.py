"""Pending pods in groups of one cause and one shape, and a group with its funnels and remedies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from allotment.engine.refusal import AllocationRefusal, NearestMiss
from allotment.errors import InputError
from allotment.explanation.report import Answer, Explanation
from allotment.explanation.text import lines
from allotment.model.meta import Value
from allotment.screens.header import Screen, command, header
from allotment.screens.holders import workload_of
from allotment.screens.pending_pods import PendingGroup, pending_pods
from allotment.screens.remedies import Remedy, in_one_sentence, next_command, remedies_of
from allotment.watched.view import ClusterView

#: Names of pods that a group lists; the others are counted.
_MAX_PODS: Final = 20
_MAX_NAMES: Final = 20
#: Wider than any sentence, which is then not folded.
_ONE_LINE: Final = 1_000_000


class GroupSummary(Value, frozen=True):
    """A group of pending pods. ``code`` and ``summary``: those of `allot explain` for the ``first`` pod.

    Without a reason, the code is the outcome: ``fits``, or ``unprepared``, with the driver's error as summary.
    ``sentence``: the first line of `allot explain`. ``oldest``: when the oldest pod was created, RFC 3339. ``waits``:
    why pods are pending although they fit. ``pods``: the first ones, or claims if no pod uses them; ``count`` all of
    them. ``remedy``: the first remedy; ``next``: the next command, which only a single group has.
    """

    id: str
    code: str
    summary: str
    sentence: str
    count: int
    first: str
    kind: str = "Pod"
    oldest: str = ""
    namespaces: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    waits: str = ""
    remedy: str = ""
    next: str = ""


class FunnelBar(Value, frozen=True, omit_defaults=False):
    """A step of a funnel; see `FunnelStep`.

    ``is_end``: the first step that loses devices and leaves fewer than requested. No step is, if fewer are published.
    """

    step: str
    text: str
    left: int
    lost: tuple[str, ...]
    by: tuple[str, ...]
    claims: tuple[str, ...]
    is_end: bool


class FunnelChart(Value, frozen=True, omit_defaults=False):
    """The funnel of a request on nodes with equal hardware. ``wanted``: 0 for all devices."""

    nodes: tuple[str, ...]
    code: str
    claim: str
    request: str
    device_class: str
    wanted: int
    visible: int
    steps: tuple[FunnelBar, ...]


class NearestDevice(Value, frozen=True):
    """The device that is nearest to matching, and a sentence about it."""

    sentence: str
    miss: NearestMiss


class PendingScreen(Screen, frozen=True):
    """All groups; ``count``: pods in all of them."""

    count: int
    groups: tuple[GroupSummary, ...] = ()


class PendingDetail(Screen, frozen=True):
    """A group. ``answer``: that of `allot explain` for its first pod; ``text``: what the command prints, line by line.

    ``answers``: the number of different requests, workloads and namespaces, each with an answer of its own.
    """

    group: GroupSummary
    answer: Answer
    text: tuple[str, ...] = ()
    answers: int = 1
    funnels: tuple[FunnelChart, ...] = ()
    nearest: NearestDevice | None = None
    remedies: tuple[Remedy, ...] = ()


def pending(view: ClusterView, limit: int = 0) -> PendingScreen:
    """Return the groups of pending pods, those that do not fit first. ``limit``: their maximum number; 0: all.

    Raises InputError if objects that the answers need could not be read.
    """
    groups = pending_pods(view).groups
    shown = groups[:limit] if limit else groups
    return PendingScreen(
        cluster=header(view),
        command=command(view, "explain"),
        count=sum(len(group.pods) for group in groups),
        groups=tuple(map(summary_of, shown)),
    )


def pending_detail(view: ClusterView, id: str, pod: str = "") -> PendingDetail:
    """Return a group. ``pod``: one of its pods, whose answer is returned instead of that of the first one.

    Raises InputError if there is no such group.
    """
    found = pending_pods(view)
    group = found.group(id)
    if group is None:
        raise InputError("these pods are no longer pending", argument="id")
    answer = answer_of(group, pod)
    namespace, _, name = answer.name.partition("/")
    word = "pod" if answer.kind == "Pod" else "claim"
    headline = answer.reasons.headline if answer.reasons is not None else None
    nearest = headline.nearest if headline is not None else None
    return PendingDetail(
        cluster=header(view),
        command=command(view, "explain", f"{word}/{name}", "-n", namespace),
        group=replace(summary_of(group), next=next_command(view, answer)),
        answer=answer,
        text=tuple(lines(Explanation((answer,)), width=_ONE_LINE)),
        answers=len(group.answers),
        funnels=tuple(funnels_of(answer)),
        nearest=NearestDevice(str(nearest), nearest) if nearest is not None else None,
        remedies=remedies_of(view, answer),
    )


def answer_of(group: PendingGroup, pod: str = "") -> Answer:
    """Return the answer that holds for a pod or claim of a group; by default that of the first one."""
    return group.by_name.get(pod, group.first)


def summary_of(group: PendingGroup) -> GroupSummary:
    """Return the summary of a group."""
    first, pods = group.first, group.pods
    headline = first.reasons.headline if first.reasons is not None else None
    sentence = lines(Explanation((replace(first, next=""),)), width=_ONE_LINE)[0]
    times = [pod.metadata.creation_timestamp for pod in pods if pod.metadata.creation_timestamp]
    workloads = dict.fromkeys(filter(None, map(workload_of, pods)))
    return GroupSummary(
        id=group.id,
        code=headline.code if headline is not None else first.outcome,
        summary=headline.summary if headline is not None else "" if first.fits else first.notes[0],
        sentence=sentence,
        count=len(pods) or len(group.by_name),
        first=first.name,
        kind=first.kind,
        oldest=min(times, default=""),
        namespaces=tuple(sorted({answer.name.partition("/")[0] for answer in group.answers})),
        workloads=tuple(workloads)[:_MAX_NAMES],
        pods=tuple(str(pod.key) for pod in pods[:_MAX_PODS]) or tuple(group.by_name)[:_MAX_PODS],
        waits=first.waits,
        remedy=in_one_sentence(headline.changes) if headline is not None else "",
    )


def funnels_of(answer: Answer) -> Iterator[FunnelChart]:
    """Yield the funnels of an answer, those of the nodes in the headline first."""
    if answer.reasons is None:
        return
    headline, rows = answer.reasons.headline, answer.reasons.nodes
    own = next((row.nodes for row in rows if row.refused == headline), (headline.node,) if headline.node else ())
    yield from _charts(headline, own)
    for row in rows:
        if row.refused != headline:
            yield from _charts(row.refused, row.nodes)


def _charts(refused: AllocationRefusal, nodes: tuple[str, ...]) -> Iterator[FunnelChart]:
    for cause in (refused, *refused.alternatives):
        for funnel in cause.funnels:
            ended, before = False, funnel.visible
            bars = []
            for step in funnel.steps:
                is_end = not ended and step.left < min(before, max(funnel.wanted, 1))
                ended, before = ended or is_end, step.left
                bars.append(FunnelBar(step.step, step.text, step.left, step.lost, step.by, step.claims, is_end))
            yield FunnelChart(
                nodes=nodes,
                code=cause.code,
                claim=funnel.claim,
                request=funnel.request,
                device_class=funnel.device_class,
                wanted=funnel.wanted,
                visible=funnel.visible,
                steps=tuple(bars),
            )
