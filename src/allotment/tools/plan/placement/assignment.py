"""Every pod to a machine, proven one by one; what finds no place where it was meant to be is moved, or gets one more.

A packing answers for each machine alone and for its pods in one order. Here all of them come in the scheduler's order,
with spread and affinity over all nodes. So a few may fail: they go to another machine of the plan that takes them, or
to one bought for them, and all is tried again from the start, until one run (`turns`) seats everybody.

Pods that the plan has nothing for wait all the same, and go wherever the scheduler lets them. So they come in their
turn as well: who finds a place has it, and whoever that was meant for is helped like others that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from allotment.tools.explain.report import GivenClaim
from allotment.tools.plan.formulation.problem import Question
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.placement.planned_nodes import Berth
from allotment.tools.plan.placement.scheduling_run import Run, Terms
from allotment.tools.plan.placement.trial import Refused

#: A machine for an item of a kind alone, beside those that there are, and in none of these zones if there are any; None
#: if no more may be bought.
Buy = Callable[[int, Item, Sequence[Berth], Collection[str]], Berth | None]


@dataclass(slots=True)
class Seated:
    """Who sits where, with what. ``words``: why an item that no machine takes was refused, by identity."""

    seats: dict[int, tuple[str, tuple[GivenClaim, ...]]] = field(default_factory=dict)
    """Node and claims by the order of the pod."""
    berths: list[Berth] = field(default_factory=list)
    words: dict[int, Refused] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    """Pods (by order) that find their place only after others that come behind them."""


def seat(
    question: Question, berths: list[Berth], items: Sequence[Sequence[Item]], spare: Collection[int], buy: Buy
) -> Seated:
    """Seat these items (by kind) on the berths, which are added to where they do not suffice.

    Nothing is bought for ``spare`` ones (by identity).
    """
    terms = Terms(set(spare))
    zones: dict[int, set[str]] = {}
    while True:
        run = _run(question, berths, items, terms)
        if run.elsewhere.keys() - terms.meant.keys():
            terms.meant = run.elsewhere | terms.meant
            continue
        kept = run.as_it_went()
        if not run.failed and not run.doubtful and len(kept) == len(berths):
            late = run.late & run.seats.keys()
            return Seated(run.seats, [berth for berth in kept if berth.name in run.used], run.words(), late)
        berths = kept
        terms.left_out |= run.doubtful
        # Every run learns where a pod goes at once, buys for an item where nothing was bought for it before, gives one
        # up, or has less to seat, or to seat it on.
        for kind, item in run.failed:
            before = zones.setdefault(id(item), set())
            # It may be that others keep it from a zone, but from no other.
            may = run.is_kept_away(item) if before else not run.hopeless(item)
            more = buy(kind, item, berths, before) if may else None
            if more is None:
                terms.gone.add(id(item))
            else:
                before.add(more.place.zone)
                berths.append(more)


def _run(question: Question, berths: Sequence[Berth], items: Sequence[Sequence[Item]], terms: Terms) -> Run:
    """One run, and a second one where it matters when pods that found no node are tried again."""
    run = Run(question, berths, items, terms)
    run.all("at last")
    if run.late:
        other = Run(question, berths, items, terms)
        other.all("at once")
        run.compare(other)
    return run
