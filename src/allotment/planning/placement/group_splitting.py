"""Splits groups of pods that must share a machine if no machine fits them all: the first pods that fit stay together.

Kubernetes places the first pod of such a group on any node, and further pods while they fit there, so that a plan
without these pods would count their capacity as free. Pods that fit no node do not exclude the others of their group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.planning.formulation.problem import Formulation
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod
from allotment.planning.pending_pods.grouping import Item, ItemKind, group_items
from allotment.planning.placement.unserved_pods import UnservedReason, unserved_reason

#: Number of prefix lengths that are checked in one formulation.
_LENGTHS_PER_CHECK: Final = 12
#: Maximum number of pods that are excluded one by one; after these the rest is excluded.
_MAX_EXCLUDED: Final = 12


class SplitGroups(NamedTuple):
    """``excluded``: pods (by order) that do not fit on one machine with the rest of their group."""

    formulation: Formulation
    excluded: dict[int, UnservedReason]


def split_groups(demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> SplitGroups:
    """The formulation of a demand in which every group of pods that must share a machine fits one."""
    formulation = Formulation(demand, catalog, limits)
    unplaceable = _unplaceable_groups(formulation)
    if not unplaceable:
        return SplitGroups(formulation, {})
    checker = _GroupChecker(demand, catalog, limits)
    pods = [pod for kind in unplaceable for item in kind.items for pod in item.pods]
    unplaceable_pods = {
        pod.order for pod, fits in zip(pods, checker.check([(pod,) for pod in pods]), strict=True) if not fits
    }
    if unplaceable_pods:
        formulation = Formulation(demand, catalog, limits, group_items(demand, unplaceable_pods))
    excluded: dict[int, UnservedReason] = {}
    for kind in _unplaceable_groups(formulation):
        whole = unserved_reason(formulation, kind.number)
        for item in kind.items:
            part = checker.largest_part(item.pods)
            reason = whole
            if whole.code != "limits":
                text = (
                    f"no available machine fits more than {len(part)} of the {len(item.pods)} pods that must run "
                    "together"
                )
                reason = UnservedReason("neighbours", f"{text}: {whole.text}", whole.nearest)
            excluded |= {pod.order: reason for pod in item.pods if pod not in part}
    if excluded:
        formulation = Formulation(demand, catalog, limits, group_items(demand, unplaceable_pods | excluded.keys()))
    return SplitGroups(formulation, excluded)


def _unplaceable_groups(formulation: Formulation) -> list[ItemKind]:
    return [
        kind for kind in formulation.kinds if len(kind.representative.pods) > 1 and not _fits_any(formulation, kind)
    ]


def _fits_any(formulation: Formulation, kind: ItemKind) -> bool:
    return any(formulation.item_fit(kind.number, candidate).fits for candidate in formulation.bin_candidates)


class _GroupChecker:
    """Checks whether groups of pods fit on one machine."""

    def __init__(self, demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits) -> None:
        self._demand = demand
        self._catalog = catalog
        self._limits = limits

    def check(self, groups: Iterable[tuple[PendingPod, ...]]) -> Iterator[bool]:
        """Whether each group fits on some machine."""
        kinds = [ItemKind(number, [Item(pods)]) for number, pods in enumerate(groups)]
        formulation = Formulation(self._demand, self._catalog, self._limits, kinds)
        return (_fits_any(formulation, kind) for kind in kinds)

    def largest_part(self, pods: tuple[PendingPod, ...]) -> tuple[PendingPod, ...]:
        """The pods that fit on one machine together; earlier pods take precedence."""
        part: tuple[PendingPod, ...] = ()
        rest = pods
        for _ in range(_MAX_EXCLUDED):
            if not rest:
                break
            count = self._longest_prefix(part, rest)
            part, rest = (*part, *rest[:count]), rest[count + 1 :]
        return part

    def _longest_prefix(self, part: tuple[PendingPod, ...], rest: tuple[PendingPod, ...]) -> int:
        """The maximum number of pods at the start of ``rest`` that fit together with the given ones."""
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
