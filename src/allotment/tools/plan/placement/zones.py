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
from allotment.tools.plan.formulation.candidate_nodes import Place
from allotment.tools.plan.formulation.problem import ZONE, Question
from allotment.tools.plan.pending_pods.demand import Waiting
from allotment.tools.plan.pending_pods.grouping import Item, Kind

#: As many failures of a zone as people mean to survive.
_ENOUGH: Final = 3


@dataclass(slots=True)
class _Wish:
    """What a kind says of zones. ``spread``: the strictest constraint; ``apart``: from its like."""

    spread: TopologySpreadConstraint | None = None
    apart: bool = False
    near: bool = False

    def __bool__(self) -> bool:
        return self.spread is not None or self.apart or self.near


def in_zones(question: Question) -> list[Kind] | None:
    """The kinds of a question with zones decided, None where nobody cares."""
    wishes = [_wish(question, kind) for kind in question.kinds]
    if not any(wishes):
        return None
    found: list[Kind] = []
    together = _together(question, wishes)
    for number, (kind, wish) in enumerate(zip(question.kinds, wishes, strict=True)):
        if number in together:
            dealt = {together[number]: kind.items}
        elif wish.spread is not None or wish.apart:
            dealt = _dealt(question, number, wish)
        else:
            dealt = {"": kind.items}
        found += [Kind(0, items, zone) for zone, items in dealt.items() if items]
    for number, kind in enumerate(found):
        kind.number = number
    return found


def _wish(question: Question, kind: Kind) -> _Wish:
    wish = _Wish()
    namespaces = question.demand.namespaces
    for pod in kind.model.pods:
        for constraint in pod.asked.spread:
            strict = constraint.topology_key == ZONE and constraint.when_unsatisfiable == "DoNotSchedule"
            if strict and (wish.spread is None or constraint.max_skew < wish.spread.max_skew):
                wish.spread = constraint
        for neighbour in pod.asked.anti_affinity:
            if neighbour.term.topology_key == ZONE and meant(neighbour.term, pod.resident, namespaces)(pod.resident):
                wish.apart = True
        wish.near = wish.near or any(n.term.topology_key == ZONE for n in pod.asked.affinity)
    return wish


# --- spread and apart --------------------------------------------------------------------------------------------


def _dealt(question: Question, number: int, wish: _Wish) -> dict[str, list[Item]]:
    """Items by zone: each to the zone that has the fewest of them."""
    kind = question.kinds[number]
    zones = _zones(question, number, wish)
    if not zones:
        return {"": kind.items}
    if wish.apart:
        dealt: dict[str, list[Item]] = {}
        for zone, item in zip(islice(cycle(zones), len(kind.items)), kind.items, strict=True):
            dealt.setdefault(zone, []).append(item)
        return dealt
    counts = _there(question, kind.model.pods[0], wish.spread)
    dealt = {zone: [] for zone in zones}
    for item in kind.items:
        zone = min(zones, key=lambda zone: (counts[zone] + len(dealt[zone]), zones.index(zone)))
        dealt[zone].append(item)
    return dealt


def _zones(question: Question, number: int, wish: _Wish) -> list[str]:
    """Zones that count already, then those of the cloud that serves the kind for the least money."""
    places = _places(question, number)
    existing = list(
        dict.fromkeys(p.zone for p in question.places if p.existing and p.zone and _selected(question, number, p))
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
    if wish.apart:
        return known
    least = (wish.spread.min_domains or 0) if wish.spread is not None else 0
    enough = max(_ENOUGH, least, len(existing))
    return known[:enough]


def _selected(question: Question, number: int, place: Place) -> bool:
    """Whether a node's zone counts for a kind: its affinity admits the node."""
    return question.alone(number, place).code != "affinity"


def _there(question: Question, pod: Waiting, constraint: TopologySpreadConstraint | None) -> Counter[str]:
    """Pods that count already, by zone."""
    found: Counter[str] = Counter()
    if constraint is None:
        return found
    matches = matcher(with_pod_keys(constraint.label_selector, pod.resident.labels, constraint.match_label_keys))
    zones = {place.name: place.zone for place in question.places if place.existing}
    for resident, node in question.demand.residents:
        if resident.namespace == pod.resident.namespace and matches(resident.labels) and not resident.terminating:
            found[zones.get(node, "")] += 1
    return found


# --- near --------------------------------------------------------------------------------------------------------


def _together(question: Question, wishes: Sequence[_Wish]) -> dict[int, str]:
    """The zone of kinds that must be in one zone with others that wait."""
    kinds = question.kinds
    above = list(range(len(kinds)))

    def top(number: int) -> int:
        while above[number] != number:
            number = above[number]
        return number

    near: set[int] = set()
    for one, wish in enumerate(wishes):
        if not wish.near:
            continue
        # Any of those that it wants to be near will do.
        for other, kind in enumerate(kinds):
            if any(_is_near(question, pod, kind) for pod in kinds[one].model.pods):
                near |= {one, other}
                above[top(other)] = top(one)
                break
    groups: dict[int, list[int]] = {}
    for number in sorted(near):
        groups.setdefault(top(number), []).append(number)
    return {number: zone for group in groups.values() if (zone := _best(question, group)) for number in group}


def _is_near(question: Question, pod: Waiting, kind: Kind) -> bool:
    return any(
        meant(neighbour.term, pod.resident, question.demand.namespaces)(other.resident)
        for neighbour in pod.asked.affinity
        if neighbour.term.topology_key == ZONE
        for other in kind.model.pods
    )


def _best(question: Question, group: Sequence[int]) -> str:
    """The zone in which all of a group can be had, for the least money; empty if there is none."""
    cheapest: list[dict[str, Decimal]] = []
    for number in group:
        prices: dict[str, Decimal] = {}
        for place in _places(question, number):
            if place.zone:
                prices[place.zone] = min(_price(place), prices.get(place.zone, _price(place)))
        cheapest.append(prices)
    zones = sorted(set.intersection(*map(set, cheapest)))
    return min(zones, key=lambda zone: (sum(prices[zone] for prices in cheapest), zone), default="")


def _places(question: Question, number: int) -> list[Place]:
    return [place for place in question.bins if question.alone(number, place).fits]


def _price(place: Place) -> Decimal:
    return (place.offer.price if place.offer is not None else None) or Decimal(0)
