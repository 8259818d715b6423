"""The reasons for unserved pods: no type fits, limits exclude the types that fit, or the fit cannot be predicted.

"Never" is reported only after every type was checked in every relevant mode, regardless of limits and prices.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from allotment.phrases import counted
from allotment.planning.formulation.candidate_nodes import CandidateNode, ItemFit
from allotment.planning.formulation.problem import Formulation
from allotment.planning.offerings.offers import allowed_capacity_types, excluded_by_limits
from allotment.planning.pending_pods.grouping import Item
from allotment.planning.placement.trial import PlacementRejection
from allotment.planning.report import UnservedPod

#: Order of failed checks: candidates that fail a later check are nearer.
_RANK: Final = {
    code: rank
    for rank, code in enumerate((
        "arch", "run-time-only", "undecided", "resources", "devices", "neighbours", "zone", "ports", "affinity",
        "taint",
    ))
}  # fmt: skip
_MAX_NAMED: Final = 3


class UnservedReason(NamedTuple):
    """The reason for all items of a kind, and the nearest types."""

    code: str
    text: str
    nearest: tuple[str, ...] = ()


def unserved_reason(formulation: Formulation, kind: int) -> UnservedReason:
    """The reason why the packing leaves items of a kind unpacked, from their fit on all candidates."""
    fitting = [candidate for candidate in formulation.bin_candidates if formulation.item_fit(kind, candidate).fits]
    if any(candidate.offer is not None for candidate in fitting):
        nearest = _type_keys(fitting)
        limits_text = _purchase_limits(formulation)
        if not limits_text:
            return UnservedReason("full", "no machine fits it in addition to the other pods", nearest)
        return UnservedReason("limits", f"{' or '.join(limits_text)} allows no further machine", nearest)
    unlimited = formulation.unlimited_candidates
    fitting_unlimited = [candidate for candidate in unlimited if formulation.item_fit(kind, candidate).fits]
    if fitting_unlimited:
        fitting_unlimited.sort(key=lambda candidate: (_unpriced(candidate), _price(candidate)))
        excluded = "; ".join(
            _with_exclusion(formulation, candidate) for candidate in _one_per_type(fitting_unlimited)[:_MAX_NAMED]
        )
        return UnservedReason(
            "limits", f"the limits exclude the types that fit: {excluded}", _type_keys(fitting_unlimited)
        )
    checked = [
        (formulation.item_fit(kind, candidate), candidate) for candidate in (*formulation.candidates, *unlimited)
    ]
    unknown = next(
        (fit for fit, candidate in checked if fit.code == "run-time-only" and candidate.offer is not None), None
    )
    if fitting and unknown is None:
        return UnservedReason("full", f"only the existing node {fitting[0].name} fits, and it has no capacity left")
    checked = [
        (_decisive_fit(formulation, kind, candidate, fit), candidate) for fit, candidate in checked if not fit.fits
    ]
    checked.sort(
        key=lambda pair: (
            _RANK.get(pair[0].code, len(_RANK)),
            _resource_rank(*pair),
            _unpriced(pair[1]),
            _price(pair[1]),
        )
    )
    if not checked:
        return UnservedReason("never", "the catalog has no usable machine type")
    nearest = _type_keys(candidate for fit, candidate in checked if fit.code == checked[0][0].code and candidate.offer)
    return _never_reason(checked[0][0], checked[0][1], nearest)


def _decisive_fit(formulation: Formulation, kind: int, candidate: CandidateNode, fit: ItemFit) -> ItemFit:
    """The decisive shortfall: missing devices rather than missing resources, if a node lacks both."""
    devices = formulation.device_fit(kind, candidate) if fit.code == "resources" else fit
    return fit if devices.fits else devices


def unserved_pods(item: Item, reason: UnservedReason, placements: Container[int]) -> list[UnservedPod]:
    """The pods of an item without a placement (by order), one by one."""
    return [
        UnservedPod(pod=pod.key, owner=pod.owner, code=reason.code, text=reason.text, nearest=reason.nearest)
        for pod in item.pods
        if pod.order not in placements
    ]


def _never_reason(fit: ItemFit, candidate: CandidateNode, nearest: tuple[str, ...]) -> UnservedReason:
    if fit.code == "arch":
        return UnservedReason("architecture", f"only types with a different CPU architecture fit: {fit.text}", nearest)
    if fit.code == "run-time-only":
        return UnservedReason("run-time-only", fit.text, nearest)
    name = candidate.offer.instance.key if candidate.offer is not None else candidate.name
    if fit.code == "undecided":
        return UnservedReason("undecided", f"it is unknown whether {name} fits: {fit.text}", nearest)
    text = {
        "resources": f"no type has enough resources: {name} has too little {fit.text}",
        "devices": "no type in the catalog has devices for its claims, in any mode",
    }.get(fit.code, f"no type fits; {name}: {fit.text}")
    return UnservedReason("never", text, nearest if fit.code != "devices" else ())


def unplaced_reason(formulation: Formulation, kind: int, rejection: PlacementRejection) -> UnservedReason:
    """The reason why a packed item could not be placed in the scheduler's order."""
    fitting = [candidate for candidate in formulation.bin_candidates if formulation.item_fit(kind, candidate).fits]
    limits_text = _purchase_limits(formulation)
    nearest = _type_keys(fitting)
    if rejection.cause in ("neighbours", "spread"):
        text = f"other pods exclude it from all available machines: {rejection.text}"
        return UnservedReason("neighbours", text, nearest)
    if rejection.cause == "order":
        return UnservedReason("order", rejection.text)
    if limits_text and nearest:
        return UnservedReason("limits", f"{' or '.join(limits_text)} allows no further machine", nearest)
    if rejection.on_every_node:
        return UnservedReason("error", rejection.text)
    return UnservedReason("full", f"pods ahead of it in the queue use the capacity: {rejection.text}", nearest)


def _purchase_limits(formulation: Formulation) -> list[str]:
    """The limits on the number and cost of machines, as text."""
    limits = formulation.limits
    limits_text = []
    if limits.budget is not None:
        limits_text.append(f"the budget of {limits.budget} USD per hour")
    if limits.max_machines is not None:
        limits_text.append(f"the limit of {counted(limits.max_machines, 'machine')}")
    limits_text += [
        f"the limit of {counted(most, 'machine')} of type {pattern}" for pattern, most in limits.max_by_pattern
    ]
    if limits.spot_share is not None:
        limits_text.append(f"the limit of {float(limits.spot_share) * 100:g}% spot machines")
    return limits_text


def _with_exclusion(formulation: Formulation, candidate: CandidateNode) -> str:
    assert candidate.offer is not None
    instance, limits = candidate.offer.instance, formulation.limits
    reason = excluded_by_limits(instance, limits)
    if not reason and not any(instance.price(capacity) for capacity in allowed_capacity_types(limits)):
        reason = (
            "price unknown" if not instance.prices else f"no known {' or '.join(allowed_capacity_types(limits))} price"
        )
    if not reason and candidate.mode and limits.modes:
        reason = f"mode {candidate.mode} is not allowed"
    if not reason and limits.unavailable:
        reason = "out of stock"
    return f"{instance.key} ({reason or instance.unusable or 'not offered in the zones that the pod requires'})"


def _one_per_type(candidates: Iterable[CandidateNode]) -> list[CandidateNode]:
    by_type: dict[str, CandidateNode] = {}
    for candidate in candidates:
        if candidate.offer is not None:
            by_type.setdefault(candidate.offer.instance.key, candidate)
    return list(by_type.values())


def _type_keys(candidates: Iterable[CandidateNode]) -> tuple[str, ...]:
    return tuple(
        candidate.offer.instance.key
        for candidate in _one_per_type(candidates)[:_MAX_NAMED]
        if candidate.offer is not None
    )


def _resource_rank(fit: ItemFit, candidate: CandidateNode) -> tuple[bool, int]:
    """The order of types that lack resources: first those with the most of the missing resource."""
    room = candidate.offer.instance.room if fit.code == "resources" and candidate.offer is not None else None
    if room is None:
        return False, 0
    memory = fit.text.startswith("memory")
    return memory, -room.memory_mib if memory else -room.cpu_milli


def _unpriced(candidate: CandidateNode) -> bool:
    return candidate.offer is None or candidate.offer.price is None


def _price(candidate: CandidateNode) -> Decimal:
    return (candidate.offer.price if candidate.offer is not None else None) or Decimal(0)
