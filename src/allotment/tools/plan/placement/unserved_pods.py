"""Why a pod is in no plan: nothing in the catalogue could ever serve it, limits forbid what could, or nobody can know.

"Never" is said only after every type in every mode that matters was asked, limits and prices aside.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from allotment.tools.plan.formulation.candidate_nodes import Alone, Place
from allotment.tools.plan.formulation.problem import Question
from allotment.tools.plan.offerings.offers import capacities, forbidden
from allotment.tools.plan.pending_pods.grouping import Item
from allotment.tools.plan.placement.trial import Refused
from allotment.tools.plan.report import Unserved

#: How far a place came, by the test that it fails.
_RANK: Final = {
    code: rank
    for rank, code in enumerate((
        "arch", "run-time-only", "undecided", "resources", "devices", "neighbours", "zone", "ports", "affinity",
        "taint",
    ))
}  # fmt: skip
_NAMED: Final = 3


class Why(NamedTuple):
    """For all items of a kind."""

    code: str
    text: str
    nearest: tuple[str, ...] = ()


def why(question: Question, kind: int) -> Why:
    """Why items of a kind are in no plan, although each was asked about everywhere."""
    fitting = [place for place in question.bins if question.alone(kind, place).fits]
    if any(place.offer is not None for place in fitting):
        nearest = _keys(fitting)
        bounds = _bounds(question)
        if not bounds:
            return Why("full", "no machine takes it together with the others", nearest)
        return Why("limits", f"{' or '.join(bounds)} leaves no room for it", nearest)
    beyond = question.beyond
    would = [place for place in beyond if question.alone(kind, place).fits]
    if would:
        would.sort(key=lambda place: (_unpriced(place), _price(place)))
        told = "; ".join(_forbidden(question, place) for place in _each_type(would)[:_NAMED])
        return Why("limits", f"the types that would do may not be bought: {told}", _keys(would))
    judged = [(question.alone(kind, place), place) for place in (*question.places, *beyond)]
    unknown = next((told for told, place in judged if told.code == "run-time-only" and place.offer is not None), None)
    if fitting and unknown is None:
        return Why("full", f"only {fitting[0].name} would do, which is there already and has no room left")
    judged = [(_decisive(question, kind, place, told), place) for told, place in judged if not told.fits]
    judged.sort(
        key=lambda one: (_RANK.get(one[0].code, len(_RANK)), _roomless(*one), _unpriced(one[1]), _price(one[1]))
    )
    if not judged:
        return Why("never", "the catalogue has no type that could be asked")
    nearest = _keys(place for told, place in judged if told.code == judged[0][0].code and place.offer)
    return _never(judged[0][0], judged[0][1], nearest)


def _decisive(question: Question, kind: int, place: Place, told: Alone) -> Alone:
    """What is really in the way: more room on a machine without the devices would be of no use."""
    devices = question.devices_alone(kind, place) if told.code == "resources" else told
    return told if devices.fits else devices


def refused(item: Item, reason: Why, seated: Container[int]) -> list[Unserved]:
    """The pods of an item that do not sit (by their order), one by one."""
    return [
        Unserved(pod=pod.key, owner=pod.owner, code=reason.code, text=reason.text, nearest=reason.nearest)
        for pod in item.pods
        if pod.order not in seated
    ]


def _never(told: Alone, place: Place, nearest: tuple[str, ...]) -> Why:
    if told.code == "arch":
        return Why("architecture", f"only types of another architecture would do: {told.text}", nearest)
    if told.code == "run-time-only":
        return Why("run-time-only", told.text, nearest)
    name = place.offer.instance.key if place.offer is not None else place.name
    if told.code == "undecided":
        return Why("undecided", f"whether {name} will do is unknown: {told.text}", nearest)
    text = {
        "resources": f"no type has the room: on {name} {told.text}",
        "devices": "no type of the catalogue has devices that suit its claims, in any mode",
    }.get(told.code, f"no type will do: on {name} {told.text}")
    return Why("never", text, nearest if told.code != "devices" else ())


def not_seated(question: Question, kind: int, refusal: Refused) -> Why:
    """Why an item that was packed found no place when all came in the scheduler's order."""
    fitting = [place for place in question.bins if question.alone(kind, place).fits]
    bounds = _bounds(question)
    nearest = _keys(fitting)
    if refusal.cause in ("neighbours", "spread"):
        text = f"other pods keep it away wherever machines can be had: {refusal.text}"
        return Why("neighbours", text, nearest)
    if refusal.cause == "order":
        return Why("order", refusal.text)
    if bounds and nearest:
        return Why("limits", f"{' or '.join(bounds)} leaves no room for it", nearest)
    if refusal.anywhere:
        return Why("error", refusal.text)
    return Why("full", f"pods before it have what it would need: {refusal.text}", nearest)


def _bounds(question: Question) -> list[str]:
    """Limits on how much may be bought, in words."""
    limits = question.limits
    bounds = []
    if limits.budget is not None:
        bounds.append(f"the budget of {limits.budget} USD per hour")
    if limits.machines is not None:
        bounds.append(f"the limit of {limits.machines} machines")
    bounds += [f"the quota of {most} for {pattern}" for pattern, most in limits.most]
    if limits.spot_share is not None:
        bounds.append(f"the share of {limits.spot_share} for spot machines")
    return bounds


def _forbidden(question: Question, place: Place) -> str:
    assert place.offer is not None
    instance, limits = place.offer.instance, question.limits
    reason = forbidden(instance, limits)
    if not reason and not any(instance.price(capacity) for capacity in capacities(limits)):
        reason = "price not known" if not instance.prices else f"no known price as {' or '.join(capacities(limits))}"
    if not reason and place.mode and limits.modes:
        reason = f"mode {place.mode} is not allowed"
    if not reason and limits.unavailable:
        reason = "out of stock just now"
    return f"{instance.key} ({reason or instance.unusable or 'not in the zones it needs'})"


def _each_type(places: Iterable[Place]) -> list[Place]:
    found: dict[str, Place] = {}
    for place in places:
        if place.offer is not None:
            found.setdefault(place.offer.instance.key, place)
    return list(found.values())


def _keys(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(place.offer.instance.key for place in _each_type(places)[:_NAMED] if place.offer is not None)


def _roomless(told: Alone, place: Place) -> tuple[bool, int]:
    """Of types that lack room those come nearest that have most of what is lacking."""
    room = place.offer.instance.room if told.code == "resources" and place.offer is not None else None
    if room is None:
        return False, 0
    memory = told.text.startswith("memory")
    return memory, -room.memory_mib if memory else -room.cpu_milli


def _unpriced(place: Place) -> bool:
    return place.offer is None or place.offer.price is None


def _price(place: Place) -> Decimal:
    return (place.offer.price if place.offer is not None else None) or Decimal(0)
