"""Pods that must be on one machine, where no machine has room for all of them: as many as can be, the first ones first.

Kubernetes lets the first pod of such a group in wherever it likes, and others as long as there is room beside it. So a
plan that gave up on all of them would be wrong about who takes what. And pods that fit nowhere draw nobody with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import ClusterDemand, PendingPod
from allotment.tools.plan.pending_pods.grouping import Item, ItemKind, group_items
from allotment.tools.plan.placement.unserved_pods import UnservedReason, unserved_reason

#: Numbers of pods that are asked about at once.
_LENGTHS_PER_CHECK: Final = 12
#: Pods that are left out one by one; then the rest.
_MAX_EXCLUDED: Final = 12


class SplitGroups(NamedTuple):
    """``left_out``: pods (by order) that are in no plan, since those that they must be with leave no room for them."""

    formulation: Formulation
    excluded: dict[int, UnservedReason]


def split_groups(demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> SplitGroups:
    """The formulation of a demand, with pods that must be together in groups that can be."""
    formulation = Formulation(demand, catalog, limits)
    unplaceable = _unplaceable_groups(formulation)
    if not unplaceable:
        return SplitGroups(formulation, {})
    checker = _GroupChecker(demand, catalog, limits)
    pods = [pod for kind in unplaceable for item in kind.items for pod in item.pods]
    unplaceable_pods = {pod.order for pod, fits in zip(pods, checker.check([(pod,) for pod in pods]), strict=True) if not fits}
    if unplaceable_pods:
        formulation = Formulation(demand, catalog, limits, group_items(demand, unplaceable_pods))
    left_out: dict[int, UnservedReason] = {}
    for kind in _unplaceable_groups(formulation):
        reason = unserved_reason(formulation, kind.number)
        for item in kind.items:
            part = checker.largest_part(item.pods)
            text = f"no machine that can be had takes more than {len(part)} of the {len(item.pods)} pods together"
            reason = reason if reason.code == "limits" else UnservedReason("neighbours", f"{text}: {reason.text}", reason.nearest)
            left_out |= {pod.order: reason for pod in item.pods if pod not in part}
    if left_out:
        formulation = Formulation(demand, catalog, limits, group_items(demand, unplaceable_pods | left_out.keys()))
    return SplitGroups(formulation, left_out)


def _unplaceable_groups(formulation: Formulation) -> list[ItemKind]:
    return [kind for kind in formulation.kinds if len(kind.representative.pods) > 1 and not _fits_any(formulation, kind)]


def _fits_any(formulation: Formulation, kind: ItemKind) -> bool:
    return any(formulation.item_fit(kind.number, place).fits for place in formulation.bin_candidates)


class _GroupChecker:
    """Whether groups of pods may be on one machine."""

    def __init__(self, demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> None:
        self._demand = demand
        self._catalog = catalog
        self._limits = limits

    def check(self, groups: Iterable[tuple[PendingPod, ...]]) -> Iterator[bool]:
        """For each, whether it may."""
        kinds = [ItemKind(number, [Item(pods)]) for number, pods in enumerate(groups)]
        formulation = Formulation(self._demand, self._catalog, self._limits, kinds)
        return (_fits_any(formulation, kind) for kind in kinds)

    def largest_part(self, pods: tuple[PendingPod, ...]) -> tuple[PendingPod, ...]:
        """As many of these as one machine takes, with as many of the first as it can be."""
        part: tuple[PendingPod, ...] = ()
        rest = pods
        for _ in range(_MAX_EXCLUDED):
            if not rest:
                break
            times = self._longest_prefix(part, rest)
            part, rest = (*part, *rest[:times]), rest[times + 1 :]
        return part

    def _longest_prefix(self, part: tuple[PendingPod, ...], rest: tuple[PendingPod, ...]) -> int:
        """How many of the first of the rest find room beside those that are kept."""
        low, high = 0, len(rest) + 1
        while high - low > 1:
            step = max(1, (high - low) // _LENGTHS_PER_CHECK)
            lengths = range(low + step, high, step)
            for length, fits in zip(lengths, self.check((*part, *rest[:n]) for n in lengths), strict=True):
                if not fits:
                    high = length
                    break
                low = length
        return low
