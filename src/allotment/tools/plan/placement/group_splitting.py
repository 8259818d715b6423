"""Pods that must be on one machine, where no machine has room for all of them: as many as can be, the first ones first.

Kubernetes lets the first pod of such a group in wherever it likes, and others as long as there is room beside it. So a
plan that gave up on all of them would be wrong about who takes what. And pods that fit nowhere draw nobody with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.tools.plan.formulation.problem import Question
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.pending_pods.demand import Demand, Waiting
from allotment.tools.plan.pending_pods.grouping import Item, Kind, kinds_of
from allotment.tools.plan.placement.unserved_pods import Why, why

#: Numbers of pods that are asked about at once.
_AT_ONCE: Final = 12
#: Pods that are left out one by one; then the rest.
_MOST_LEFT_OUT: Final = 12


class Parted(NamedTuple):
    """``left_out``: pods (by order) that are in no plan, since those that they must be with leave no room for them."""

    question: Question
    left_out: dict[int, Why]


def parted(demand: Demand, catalog: Sequence[InstanceType], limits: Limits) -> Parted:
    """The question of a demand, with pods that must be together in groups that can be."""
    question = Question(demand, catalog, limits)
    stuck = _stuck(question)
    if not stuck:
        return Parted(question, {})
    ask = _Asking(demand, catalog, limits)
    pods = [pod for kind in stuck for item in kind.items for pod in item.pods]
    lost = {pod.order for pod, goes in zip(pods, ask.go([(pod,) for pod in pods]), strict=True) if not goes}
    if lost:
        question = Question(demand, catalog, limits, kinds_of(demand, lost))
    left_out: dict[int, Why] = {}
    for kind in _stuck(question):
        told = why(question, kind.number)
        for item in kind.items:
            kept = ask.most_of(item.pods)
            text = f"no machine that can be had takes more than {len(kept)} of the {len(item.pods)} pods together"
            reason = told if told.code == "limits" else Why("neighbours", f"{text}: {told.text}", told.nearest)
            left_out |= {pod.order: reason for pod in item.pods if pod not in kept}
    if left_out:
        question = Question(demand, catalog, limits, kinds_of(demand, lost | left_out.keys()))
    return Parted(question, left_out)


def _stuck(question: Question) -> list[Kind]:
    return [kind for kind in question.kinds if len(kind.model.pods) > 1 and not _goes(question, kind)]


def _goes(question: Question, kind: Kind) -> bool:
    return any(question.alone(kind.number, place).fits for place in question.bins)


class _Asking:
    """Whether groups of pods may be on one machine."""

    def __init__(self, demand: Demand, catalog: Sequence[InstanceType], limits: Limits) -> None:
        self._demand = demand
        self._catalog = catalog
        self._limits = limits

    def go(self, groups: Iterable[tuple[Waiting, ...]]) -> Iterator[bool]:
        """For each, whether it may."""
        kinds = [Kind(number, [Item(pods)]) for number, pods in enumerate(groups)]
        question = Question(self._demand, self._catalog, self._limits, kinds)
        return (_goes(question, kind) for kind in kinds)

    def most_of(self, pods: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
        """As many of these as one machine takes, with as many of the first as it can be."""
        kept: tuple[Waiting, ...] = ()
        rest = pods
        for _ in range(_MOST_LEFT_OUT):
            if not rest:
                break
            times = self._longest(kept, rest)
            kept, rest = (*kept, *rest[:times]), rest[times + 1 :]
        return kept

    def _longest(self, kept: tuple[Waiting, ...], rest: tuple[Waiting, ...]) -> int:
        """How many of the first of the rest find room beside those that are kept."""
        low, high = 0, len(rest) + 1
        while high - low > 1:
            step = max(1, (high - low) // _AT_ONCE)
            lengths = range(low + step, high, step)
            for length, goes in zip(lengths, self.go((*kept, *rest[:n]) for n in lengths), strict=True):
                if not goes:
                    high = length
                    break
                low = length
        return low
