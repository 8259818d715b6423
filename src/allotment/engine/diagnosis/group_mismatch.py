"""Causes of refusal in compatibility groups: matching devices of the same hardware exclude each other (KEP-5941)."""

from __future__ import annotations

from allotment.engine.diagnosis.candidate_changes import request_count
from allotment.engine.diagnosis.context import Cause, NodeContext
from allotment.engine.diagnosis.funnel import Trace
from allotment.engine.diagnosis.scenario import CandidateChange, RequestLocation
from allotment.engine.refusal import NearestMiss
from allotment.phrases import first_few


def groups_differ(
    context: NodeContext, claim: str, request: str, traces: tuple[Trace, ...], candidates: tuple[CandidateChange, ...]
) -> Cause:
    """The cause if the devices match, but their compatibility groups allow too few of them together."""
    by_groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for visible in {visible.id: visible for trace in traces for visible in trace.left}.values():
        for member in visible.traits.groups:
            by_groups.setdefault((member.counter_set, member.groups), []).append(visible.name)
    shown = [
        f"{', '.join(groups) or 'no group'} in {counter_set}: {first_few(names)}"
        for (counter_set, groups), names in by_groups.items()
    ]
    spread = "; ".join(shown[:4]) + (f"; and {len(shown) - 4} more" if len(shown) > 4 else "")
    (counter_set, groups), names = max(by_groups.items(), key=lambda item: len(item[1]))
    summary = f"the matching devices exclude each other by their compatibility groups ({spread})"
    nearest = NearestMiss(
        device=first_few(names),
        what="compatibility groups",
        actual=", ".join(groups) or "none",
        wanted=f"more devices of {counter_set} with a common group",
    )
    return Cause("compatibility-groups-differ", summary, claim, request, traces, nearest, candidates)


def fewer_of(location: RequestLocation, need: int) -> tuple[CandidateChange, ...]:
    """Smaller counts for a request whose devices exclude each other."""
    counts = sorted({need - 1, need // 2, 1} - {0, need}, reverse=True)
    return tuple(request_count(location, need, count) for count in counts)
