"""Devices that match and are held by others: whole, in shares, or through the counters of their card."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.diagnosis.candidate_changes import ask_for, capacity_edit, exact_count, free_claims
from allotment.engine.diagnosis.context import Cause, Scene
from allotment.engine.diagnosis.funnel import Loss, Trace
from allotment.engine.diagnosis.holders import Holder
from allotment.engine.diagnosis.node_supply import by_taints
from allotment.engine.diagnosis.scenario import Asked, Candidate, Place
from allotment.engine.diagnosis.visible_devices import Seen
from allotment.engine.diagnosis.wording import amount_text, holding, named
from allotment.engine.outcome import Outcome
from allotment.engine.refusal import Miss
from allotment.model.quantity import Quantity
from allotment.phrases import counted


def _smaller_partition(place: Place, asked: Asked, traced: Trace) -> list[Candidate]:
    return [ask_for(place, asked.count, len(traced.left))] if asked.count > len(traced.left) > 0 else []


def by_counters(scene: Scene, place: Place, asked: Asked, traced: Trace, loss: Loss, outcome: Outcome) -> Cause:
    """Devices whose counters are drawn by others of the card."""
    short = next((s for s in loss.lost if scene.view.lacking(s, scene.held)), loss.lost[0])
    lacking = scene.view.lacking(short, scene.held)
    set_, counter, left, need = max(lacking, key=lambda x: (x[3] - x[2], x[1]))
    amount, rest = amount_text(need), amount_text(max(left, 0))
    nearest = Miss(device=short.name, kind=short.kind, what=f"{counter} left in {set_}", actual=rest, wanted=amount)
    holders = holders_of(loss)
    if holders:
        whom = holding(holders)
        summary = f"{named(loss.lost)}: free, but the counters of the card are held by {whom}"
    else:
        summary = f"{named(loss.lost)} consumes more of counter {counter} than {set_} has"
    candidates = [*free_claims(holders), *_smaller_partition(place, asked, traced)]
    return Cause("counters-exhausted", summary, place.claim, place.name, (traced,), nearest, tuple(candidates))


def by_use(scene: Scene, place: Place, asked: Asked, traced: Trace, loss: Loss, outcome: Outcome) -> Cause:
    """Devices that claims hold."""
    holders = holders_of(loss)
    whom = holding(holders)
    shared = [s for s, _ in loss.by if s.device.allow_multiple_allocations and s.id not in scene.held.whole]
    if shared and not loss.left:
        return _share_in_use(scene, place, asked, traced, shared[0], holders)
    if asked.allocation_mode == "All":
        verb = "is" if len(loss.lost) == 1 else "are"
        summary = f"all devices are asked for, and {named(loss.lost)} {verb} in use by {whom}"
    elif loss.left:
        have = f"{len(loss.left)} of {len(loss.arriving)} matching ones free"
        summary = f"{counted(asked.count, 'device')} asked, {have}; the rest is in use by {whom}"
    else:
        summary = f"every matching device is in use, by {whom}"
    candidates = [*free_claims(holders)]
    if loss.left and asked.allocation_mode != "All":
        candidates.append(ask_for(place, asked.count, len(loss.left)))
    if asked.allocation_mode == "All" and loss.left:
        candidates.append(exact_count(place, len(loss.left)))
    tainted = next((x for x in traced.losses if x.step == "taints" and x.lost), None)
    if tainted is not None:
        candidates.extend(by_taints(scene, place, asked, traced, tainted, outcome).candidates[:1])
    return Cause("devices-in-use", summary, place.claim, place.name, (traced,), candidates=tuple(candidates))


def _share_in_use(
    scene: Scene, place: Place, asked: Asked, traced: Trace, device: Seen, holders: list[Holder]
) -> Cause:
    taken = scene.view.consumed(device.device, asked.capacity) or {}
    for name, amount in taken.items():
        total = device.device.capacity[name].value
        used = sum(consumed.get(name, 0) for _, consumed in scene.held.shares[device.id])
        if used + amount.nano <= total.nano:
            continue
        rest = amount_text(max(total.nano - used, 0))
        summary = (
            f"{amount} of {name} asked, {rest} of {total} left on {device.name}; the rest is held by {holding(holders)}"
        )
        nearest = Miss(device=device.name, kind=device.kind, what=f"{name} left", actual=rest, wanted=str(amount))
        requests = dict(asked.capacity.requests) if asked.capacity is not None else {}
        candidates = []
        if total.nano > used:
            less = {**requests, name: Quantity.parse(rest)}
            candidates.append(capacity_edit(place, less, "less", f"ask for {rest} of {name}"))
        candidates.extend(free_claims(holders))
        return Cause("capacity-in-use", summary, place.claim, place.name, (traced,), nearest, tuple(candidates))
    return Cause("capacity-in-use", f"no share of {device.name} is left", place.claim, place.name, (traced,))


def holders_of(loss: Loss) -> list[Holder]:
    """Everyone who holds what this step lost, in order of appearance."""
    found: dict[Holder, None] = {}
    for _, holders in loss.by:
        found.update(dict.fromkeys(holders))
    return list(found)


def all_holders(traces: Iterable[Trace]) -> list[Holder]:
    """Everyone who holds devices or counters that these funnels lost."""
    taken = (loss for trace in traces for loss in trace.losses if loss.step in ("in-use", "counters"))
    return list(dict.fromkeys(holder for loss in taken for holder in holders_of(loss)))
