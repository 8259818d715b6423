"""Assigns zones to items with zonal constraints: topology spread, affinity and anti-affinity by zone.

The packing problem has no zones, so they are decided first: items are distributed over zones as their constraints
require, and fit only machines of their zone. This may cost more than an optimal choice; the lower bound of a plan does
not depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from typing import Final

from allotment.model.core import TopologySpreadConstraint
from allotment.node_fit.filters.inter_pod_affinity import term_matcher
from allotment.node_fit.label_selectors import matcher, with_pod_keys
from allotment.planning.formulation.candidate_nodes import CandidateNode
from allotment.planning.formulation.problem import ZONE, Formulation
from allotment.planning.pending_pods.demand import PendingPod
from allotment.planning.pending_pods.grouping import Item, ItemKind

#: The maximum number of zones for a topology spread, unless minDomains or existing nodes require more.
_MAX_ZONES: Final = 3


@dataclass(slots=True)
class _ZoneConstraints:
    """The zonal constraints of a kind. ``spread``: the strictest one; ``is_exclusive``: one item per zone."""

    spread: TopologySpreadConstraint | None = None
    is_exclusive: bool = False
    has_affinity: bool = False

    def __bool__(self) -> bool:
        return self.spread is not None or self.is_exclusive or self.has_affinity


def assign_zones(formulation: Formulation) -> list[ItemKind] | None:
    """The item kinds of a formulation with assigned zones; None if no kind has zonal constraints."""
    constraints_by_kind = [_zone_constraints(formulation, kind) for kind in formulation.kinds]
    if not any(constraints_by_kind):
        return None
    result: list[ItemKind] = []
    together = _affinity_zones(formulation, constraints_by_kind)
    for number, (kind, constraints) in enumerate(zip(formulation.kinds, constraints_by_kind, strict=True)):
        if number in together:
            by_zone = {together[number]: kind.items}
        elif constraints.spread is not None or constraints.is_exclusive:
            by_zone = _items_by_zone(formulation, number, constraints)
        else:
            by_zone = {"": kind.items}
        result += [ItemKind(0, items, zone) for zone, items in by_zone.items() if items]
    for number, kind in enumerate(result):
        kind.number = number
    return result


def _zone_constraints(formulation: Formulation, kind: ItemKind) -> _ZoneConstraints:
    constraints = _ZoneConstraints()
    namespaces = formulation.demand.namespaces
    for pod in kind.representative.pods:
        for constraint in pod.requirements.spread:
            strict = constraint.topology_key == ZONE and constraint.when_unsatisfiable == "DoNotSchedule"
            if strict and (constraints.spread is None or constraint.max_skew < constraints.spread.max_skew):
                constraints.spread = constraint
        for neighbour in pod.requirements.anti_affinity:
            if neighbour.term.topology_key == ZONE and term_matcher(neighbour.term, pod.resident, namespaces)(
                pod.resident
            ):
                constraints.is_exclusive = True
        constraints.has_affinity = constraints.has_affinity or any(
            n.term.topology_key == ZONE for n in pod.requirements.affinity
        )
    return constraints


# --- spread and anti-affinity ------------------------------------------------------------------------------------


def _items_by_zone(formulation: Formulation, number: int, constraints: _ZoneConstraints) -> dict[str, list[Item]]:
    """Items by zone: each goes to the zone with the fewest."""
    kind = formulation.kinds[number]
    zones = _zones(formulation, number, constraints)
    if not zones:
        return {"": kind.items}
    if constraints.is_exclusive:
        by_zone: dict[str, list[Item]] = {}
        for zone, item in zip(islice(cycle(zones), len(kind.items)), kind.items, strict=True):
            by_zone.setdefault(zone, []).append(item)
        return by_zone
    counts = _matching_pods(formulation, kind.representative.pods[0], constraints.spread)
    by_zone = {zone: [] for zone in zones}
    for item in kind.items:
        zone = min(zones, key=lambda zone: (counts[zone] + len(by_zone[zone]), zones.index(zone)))
        by_zone[zone].append(item)
    return by_zone


def _zones(formulation: Formulation, number: int, constraints: _ZoneConstraints) -> list[str]:
    """The zones of existing nodes, then the zones of the region that is cheapest for the kind."""
    candidates = _fitting_candidates(formulation, number)
    existing = list(
        dict.fromkeys(
            candidate.zone
            for candidate in formulation.candidates
            if candidate.is_existing and candidate.zone and _is_selected(formulation, number, candidate)
        )
    )
    new = [candidate for candidate in candidates if candidate.offer is not None and candidate.zone]
    if not new:
        return existing
    best = min(new, key=_price).offer
    assert best is not None
    region = best.instance.provider, best.instance.region
    offered = dict.fromkeys(
        candidate.zone
        for candidate in sorted(new, key=_price)
        if candidate.offer and (candidate.offer.instance.provider, candidate.offer.instance.region) == region
    )
    zones_known = [*existing, *sorted(zone for zone in offered if zone not in existing)]
    if constraints.is_exclusive:
        return zones_known
    min_domains = (constraints.spread.min_domains or 0) if constraints.spread is not None else 0
    max_zones = max(_MAX_ZONES, min_domains, len(existing))
    return zones_known[:max_zones]


def _is_selected(formulation: Formulation, number: int, candidate: CandidateNode) -> bool:
    """Whether a node's zone counts for a kind: the kind's node affinity matches the node."""
    return formulation.item_fit(number, candidate).code != "affinity"


def _matching_pods(
    formulation: Formulation, pod: PendingPod, constraint: TopologySpreadConstraint | None
) -> Counter[str]:
    """The number of running pods that match the constraint, by zone."""
    result: Counter[str] = Counter()
    if constraint is None:
        return result
    matches = matcher(with_pod_keys(constraint.label_selector, pod.resident.labels, constraint.match_label_keys))
    zones = {candidate.name: candidate.zone for candidate in formulation.candidates if candidate.is_existing}
    for resident, node in formulation.demand.residents:
        if resident.namespace == pod.resident.namespace and matches(resident.labels) and not resident.terminating:
            result[zones.get(node, "")] += 1
    return result


# --- affinity ----------------------------------------------------------------------------------------------------


def _affinity_zones(formulation: Formulation, constraints_by_kind: Sequence[_ZoneConstraints]) -> dict[int, str]:
    """The zone of kinds whose affinity requires the zone of other pending pods."""
    kinds = formulation.kinds
    parents = list(range(len(kinds)))

    def root(number: int) -> int:
        while parents[number] != number:
            number = parents[number]
        return number

    grouped: set[int] = set()
    for number, constraints in enumerate(constraints_by_kind):
        if not constraints.has_affinity:
            continue
        # Any of the kinds that match the affinity is sufficient.
        for other, kind in enumerate(kinds):
            if any(_is_near(formulation, pod, kind) for pod in kinds[number].representative.pods):
                grouped |= {number, other}
                parents[root(other)] = root(number)
                break
    groups: dict[int, list[int]] = {}
    for number in sorted(grouped):
        groups.setdefault(root(number), []).append(number)
    return {
        number: zone
        for group in groups.values()
        if (zone := _cheapest_common_zone(formulation, group))
        for number in group
    }


def _is_near(formulation: Formulation, pod: PendingPod, kind: ItemKind) -> bool:
    return any(
        term_matcher(neighbour.term, pod.resident, formulation.demand.namespaces)(other.resident)
        for neighbour in pod.requirements.affinity
        if neighbour.term.topology_key == ZONE
        for other in kind.representative.pods
    )


def _cheapest_common_zone(formulation: Formulation, group: Sequence[int]) -> str:
    """The cheapest zone with candidates for all kinds of a group; empty if there is none."""
    cheapest: list[dict[str, Decimal]] = []
    for number in group:
        prices: dict[str, Decimal] = {}
        for candidate in _fitting_candidates(formulation, number):
            if candidate.zone:
                prices[candidate.zone] = min(_price(candidate), prices.get(candidate.zone, _price(candidate)))
        cheapest.append(prices)
    zones = sorted(set.intersection(*map(set, cheapest)))
    return min(zones, key=lambda zone: (sum(prices[zone] for prices in cheapest), zone), default="")


def _fitting_candidates(formulation: Formulation, number: int) -> list[CandidateNode]:
    return [candidate for candidate in formulation.bin_candidates if formulation.item_fit(number, candidate).fits]


def _price(candidate: CandidateNode) -> Decimal:
    return (candidate.offer.price if candidate.offer is not None else None) or Decimal(0)
