"""Why a pod is in no plan: nothing in the catalogue could ever serve it, limits forbid what could, or nobody can know.

"Never" is said only after every type in every mode that matters was asked, limits and prices aside.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from allotment.tools.plan.formulation.candidate_nodes import CandidateNode, ItemFit
from allotment.tools.plan.formulation.problem import Formulation
from allotment.tools.plan.offerings.offers import allowed_capacity_types, excluded_by_limits
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.placement.trial import PlacementRejection
from allotment.tools.plan.report import UnservedPod

#: How far a place came, by the test that it fails.
_RANK: Final = {
    code: rank
    for rank, code in enumerate((
        "arch", "run-time-only", "undecided", "resources", "devices", "neighbours", "zone", "ports", "affinity",
        "taint",
    ))
}  # fmt: skip
_MAX_NAMED: Final = 3


class UnservedReason(NamedTuple):
    """For all items of a kind."""

    code: str
    text: str
    nearest: tuple[str, ...] = ()


def unserved_reason(formulation: Formulation, kind: int) -> UnservedReason:
    """Why items of a kind are in no plan, although each was asked about everywhere."""
    fitting = [place for place in formulation.bin_candidates if formulation.item_fit(kind, place).fits]
    if any(place.offer is not None for place in fitting):
        nearest = _type_keys(fitting)
        bounds = _purchase_limits(formulation)
        if not bounds:
            return UnservedReason("full", "no machine takes it together with the others", nearest)
        return UnservedReason("limits", f"{' or '.join(bounds)} leaves no room for it", nearest)
    beyond = formulation.unlimited_candidates
    would = [place for place in beyond if formulation.item_fit(kind, place).fits]
    if would:
        would.sort(key=lambda place: (_unpriced(place), _price(place)))
        told = "; ".join(_with_exclusion(formulation, place) for place in _one_per_type(would)[:_MAX_NAMED])
        return UnservedReason("limits", f"the types that would do may not be bought: {told}", _type_keys(would))
    judged = [(formulation.item_fit(kind, place), place) for place in (*formulation.candidates, *beyond)]
    unknown = next((told for told, place in judged if told.code == "run-time-only" and place.offer is not None), None)
    if fitting and unknown is None:
        return UnservedReason("full", f"only {fitting[0].name} would do, which is there already and has no room left")
    judged = [(_decisive_fit(formulation, kind, place, told), place) for told, place in judged if not told.fits]
    judged.sort(
        key=lambda one: (_RANK.get(one[0].code, len(_RANK)), _resource_rank(*one), _unpriced(one[1]), _price(one[1]))
    )
    if not judged:
        return UnservedReason("never", "the catalogue has no type that could be asked")
    nearest = _type_keys(place for told, place in judged if told.code == judged[0][0].code and place.offer)
    return _never_reason(judged[0][0], judged[0][1], nearest)


def _decisive_fit(formulation: Formulation, kind: int, place: CandidateNode, told: ItemFit) -> ItemFit:
    """What is really in the way: more room on a machine without the devices would be of no use."""
    devices = formulation.device_fit(kind, place) if told.code == "resources" else told
    return told if devices.fits else devices


def unserved_pods(item: Item, reason: UnservedReason, seated: Container[int]) -> list[UnservedPod]:
    """The pods of an item that do not sit (by their order), one by one."""
    return [
        UnservedPod(pod=pod.key, owner=pod.owner, code=reason.code, text=reason.text, nearest=reason.nearest)
        for pod in item.pods
        if pod.order not in seated
    ]


def _never_reason(told: ItemFit, place: CandidateNode, nearest: tuple[str, ...]) -> UnservedReason:
    if told.code == "arch":
        return UnservedReason("architecture", f"only types of another architecture would do: {told.text}", nearest)
    if told.code == "run-time-only":
        return UnservedReason("run-time-only", told.text, nearest)
    name = place.offer.instance.key if place.offer is not None else place.name
    if told.code == "undecided":
        return UnservedReason("undecided", f"whether {name} will do is unknown: {told.text}", nearest)
    text = {
        "resources": f"no type has the room: on {name} {told.text}",
        "devices": "no type of the catalogue has devices that suit its claims, in any mode",
    }.get(told.code, f"no type will do: on {name} {told.text}")
    return UnservedReason("never", text, nearest if told.code != "devices" else ())


def unplaced_reason(formulation: Formulation, kind: int, refusal: PlacementRejection) -> UnservedReason:
    """Why an item that was packed found no place when all came in the scheduler's order."""
    fitting = [place for place in formulation.bin_candidates if formulation.item_fit(kind, place).fits]
    bounds = _purchase_limits(formulation)
    nearest = _type_keys(fitting)
    if refusal.cause in ("neighbours", "spread"):
        text = f"other pods keep it away wherever machines can be had: {refusal.text}"
        return UnservedReason("neighbours", text, nearest)
    if refusal.cause == "order":
        return UnservedReason("order", refusal.text)
    if bounds and nearest:
        return UnservedReason("limits", f"{' or '.join(bounds)} leaves no room for it", nearest)
    if refusal.on_every_node:
        return UnservedReason("error", refusal.text)
    return UnservedReason("full", f"pods before it have what it would need: {refusal.text}", nearest)


def _purchase_limits(formulation: Formulation) -> list[str]:
    """Limits on how much may be bought, in words."""
    limits = formulation.limits
    bounds = []
    if limits.budget is not None:
        bounds.append(f"the budget of {limits.budget} USD per hour")
    if limits.max_machines is not None:
        bounds.append(f"the limit of {limits.max_machines} machines")
    bounds += [f"the quota of {most} for {pattern}" for pattern, most in limits.max_by_pattern]
    if limits.spot_share is not None:
        bounds.append(f"the share of {limits.spot_share} for spot machines")
    return bounds


def _with_exclusion(formulation: Formulation, place: CandidateNode) -> str:
    assert place.offer is not None
    instance, limits = place.offer.instance, formulation.limits
    reason = excluded_by_limits(instance, limits)
    if not reason and not any(instance.price(capacity) for capacity in allowed_capacity_types(limits)):
        reason = "price not known" if not instance.prices else f"no known price as {' or '.join(allowed_capacity_types(limits))}"
    if not reason and place.mode and limits.modes:
        reason = f"mode {place.mode} is not allowed"
    if not reason and limits.unavailable:
        reason = "out of stock just now"
    return f"{instance.key} ({reason or instance.unusable or 'not in the zones it needs'})"


def _one_per_type(places: Iterable[CandidateNode]) -> list[CandidateNode]:
    found: dict[str, CandidateNode] = {}
    for place in places:
        if place.offer is not None:
            found.setdefault(place.offer.instance.key, place)
    return list(found.values())


def _type_keys(places: Iterable[CandidateNode]) -> tuple[str, ...]:
    return tuple(place.offer.instance.key for place in _one_per_type(places)[:_MAX_NAMED] if place.offer is not None)


def _resource_rank(told: ItemFit, place: CandidateNode) -> tuple[bool, int]:
    """Of types that lack room those come nearest that have most of what is lacking."""
    room = place.offer.instance.room if told.code == "resources" and place.offer is not None else None
    if room is None:
        return False, 0
    memory = told.text.startswith("memory")
    return memory, -room.memory_mib if memory else -room.cpu_milli


def _unpriced(place: CandidateNode) -> bool:
    return place.offer is None or place.offer.price is None


def _price(place: CandidateNode) -> Decimal:
    return (place.offer.price if place.offer is not None else None) or Decimal(0)
