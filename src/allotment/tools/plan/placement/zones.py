"""Zones for pods that care in which others are: spread over zones, in one zone with others, or never in the same.

A packing knows machines and no zones. So zones are decided before: items are dealt out to zones as their constraints
want it, and each then goes to machines of its zone only. This may cost more than the best choice would; the lower bound
of a plan does not rely on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import cycle, islice
from typing import Final

from allotment.node_fit.filters.inter_pod_affinity import meant
from allotment.node_fit.label_selectors import matcher, with_pod_keys
from allotment.node_fit.podspec import TopologySpreadConstraint
from allotment.tools.plan.formulation.candidate_nodes import CandidateNode
from allotment.tools.plan.formulation.problem import ZONE, Formulation
from allotment.tools.plan.pending_pods.demand import PendingPod
from allotment.tools.plan.pending_pods.grouping import Item, ItemKind

#: As many failures of a zone as people mean to survive.
_MAX_ZONES: Final = 3


@dataclass(slots=True)
class _ZoneConstraints:
    """What a kind says of zones. ``spread``: the strictest constraint; ``apart``: from its like."""

    spread: TopologySpreadConstraint | None = None
    is_exclusive: bool = False
    has_affinity: bool = False

    def __bool__(self) -> bool:
        return self.spread is not None or self.is_exclusive or self.has_affinity


def assign_zones(formulation: Formulation) -> list[ItemKind] | None:
    """The kinds of a formulation with zones decided, None where nobody cares."""
    wishes = [_zone_constraints(formulation, kind) for kind in formulation.kinds]
    if not any(wishes):
        return None
    found: list[ItemKind] = []
    together = _affinity_zones(formulation, wishes)
    for number, (kind, wish) in enumerate(zip(formulation.kinds, wishes, strict=True)):
        if number in together:
            dealt = {together[number]: kind.items}
        elif wish.spread is not None or wish.is_exclusive:
            dealt = _items_by_zone(formulation, number, wish)
        else:
            dealt = {"": kind.items}
        found += [ItemKind(0, items, zone) for zone, items in dealt.items() if items]
    for number, kind in enumerate(found):
        kind.number = number
    return found


def _zone_constraints(formulation: Formulation, kind: ItemKind) -> _ZoneConstraints:
    wish = _ZoneConstraints()
    namespaces = formulation.demand.namespaces
    for pod in kind.representative.pods:
        for constraint in pod.requirements.spread:
            strict = constraint.topology_key == ZONE and constraint.when_unsatisfiable == "DoNotSchedule"
            if strict and (wish.spread is None or constraint.max_skew < wish.spread.max_skew):
                wish.spread = constraint
        for neighbour in pod.requirements.anti_affinity:
            if neighbour.term.topology_key == ZONE and meant(neighbour.term, pod.resident, namespaces)(pod.resident):
                wish.is_exclusive = True
        wish.has_affinity = wish.has_affinity or any(n.term.topology_key == ZONE for n in pod.requirements.affinity)
    return wish


# --- spread and apart --------------------------------------------------------------------------------------------


def _items_by_zone(formulation: Formulation, number: int, wish: _ZoneConstraints) -> dict[str, list[Item]]:
    """Items by zone: each to the zone that has the fewest of them."""
    kind = formulation.kinds[number]
    zones = _zones(formulation, number, wish)
    if not zones:
        return {"": kind.items}
    if wish.is_exclusive:
        dealt: dict[str, list[Item]] = {}
        for zone, item in zip(islice(cycle(zones), len(kind.items)), kind.items, strict=True):
            dealt.setdefault(zone, []).append(item)
        return dealt
    counts = _matching_pods(formulation, kind.representative.pods[0], wish.spread)
    dealt = {zone: [] for zone in zones}
    for item in kind.items:
        zone = min(zones, key=lambda zone: (counts[zone] + len(dealt[zone]), zones.index(zone)))
        dealt[zone].append(item)
    return dealt


def _zones(formulation: Formulation, number: int, wish: _ZoneConstraints) -> list[str]:
    """Zones that count already, then those of the cloud that serves the kind for the least money."""
    places = _fitting_candidates(formulation, number)
    existing = list(
        dict.fromkeys(p.zone for p in formulation.candidates if p.is_existing and p.zone and _is_selected(formulation, number, p))
    )
    new = [place for place in places if place.offer is not None and place.zone]
    if not new:
        return existing
    best = min(new, key=_price).offer
    assert best is not None
    region = best.instance.provider, best.instance.region
    offered = dict.fromkeys(
        p.zone
        for p in sorted(new, key=_price)
        if p.offer and (p.offer.instance.provider, p.offer.instance.region) == region
    )
    known = [*existing, *sorted(zone for zone in offered if zone not in existing)]
    if wish.is_exclusive:
        return known
    least = (wish.spread.min_domains or 0) if wish.spread is not None else 0
    enough = max(_MAX_ZONES, least, len(existing))
    return known[:enough]


def _is_selected(formulation: Formulation, number: int, place: CandidateNode) -> bool:
    """Whether a node's zone counts for a kind: its affinity admits the node."""
    return formulation.item_fit(number, place).code != "affinity"


def _matching_pods(formulation: Formulation, pod: PendingPod, constraint: TopologySpreadConstraint | None) -> Counter[str]:
    """Pods that count already, by zone."""
    found: Counter[str] = Counter()
    if constraint is None:
        return found
    matches = matcher(with_pod_keys(constraint.label_selector, pod.resident.labels, constraint.match_label_keys))
    zones = {place.name: place.zone for place in formulation.candidates if place.is_existing}
    for resident, node in formulation.demand.residents:
        if resident.namespace == pod.resident.namespace and matches(resident.labels) and not resident.terminating:
            found[zones.get(node, "")] += 1
    return found


# --- near --------------------------------------------------------------------------------------------------------


def _affinity_zones(formulation: Formulation, wishes: Sequence[_ZoneConstraints]) -> dict[int, str]:
    """The zone of kinds that must be in one zone with others that wait."""
    kinds = formulation.kinds
    above = list(range(len(kinds)))

    def top(number: int) -> int:
        while above[number] != number:
            number = above[number]
        return number

    near: set[int] = set()
    for one, wish in enumerate(wishes):
        if not wish.has_affinity:
            continue
        # Any of those that it wants to be near will do.
        for other, kind in enumerate(kinds):
            if any(_is_near(formulation, pod, kind) for pod in kinds[one].representative.pods):
                near |= {one, other}
                above[top(other)] = top(one)
                break
    groups: dict[int, list[int]] = {}
    for number in sorted(near):
        groups.setdefault(top(number), []).append(number)
    return {number: zone for group in groups.values() if (zone := _cheapest_common_zone(formulation, group)) for number in group}


def _is_near(formulation: Formulation, pod: PendingPod, kind: ItemKind) -> bool:
    return any(
        meant(neighbour.term, pod.resident, formulation.demand.namespaces)(other.resident)
        for neighbour in pod.requirements.affinity
        if neighbour.term.topology_key == ZONE
        for other in kind.representative.pods
    )


def _cheapest_common_zone(formulation: Formulation, group: Sequence[int]) -> str:
    """The zone in which all of a group can be had, for the least money; empty if there is none."""
    cheapest: list[dict[str, Decimal]] = []
    for number in group:
        prices: dict[str, Decimal] = {}
        for place in _fitting_candidates(formulation, number):
            if place.zone:
                prices[place.zone] = min(_price(place), prices.get(place.zone, _price(place)))
        cheapest.append(prices)
    zones = sorted(set.intersection(*map(set, cheapest)))
    return min(zones, key=lambda zone: (sum(prices[zone] for prices in cheapest), zone), default="")


def _fitting_candidates(formulation: Formulation, number: int) -> list[CandidateNode]:
    return [place for place in formulation.bin_candidates if formulation.item_fit(number, place).fits]


def _price(place: CandidateNode) -> Decimal:
    return (place.offer.price if place.offer is not None else None) or Decimal(0)
