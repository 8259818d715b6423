"""Causes of refusal: matching devices are in use, exclusively, by shares, or through shared counters."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.diagnosis.candidate_changes import exact_count, free_claims, request_count, smaller_amount
from allotment.engine.diagnosis.context import Cause, NodeContext
from allotment.engine.diagnosis.funnel import Loss, Trace
from allotment.engine.diagnosis.holders import ClaimHolder
from allotment.engine.diagnosis.node_supply import devices_tainted
from allotment.engine.diagnosis.scenario import CandidateChange, RequestLocation, RequestSpec
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.engine.diagnosis.wording import amount_text, device_names, holder_names
from allotment.engine.outcome import Outcome
from allotment.engine.refusal import NearestMiss
from allotment.model.quantity import Quantity
from allotment.phrases import counted


def _fewer_partitions(location: RequestLocation, spec: RequestSpec, trace: Trace) -> list[CandidateChange]:
    return [request_count(location, spec.count, len(trace.left))] if spec.count > len(trace.left) > 0 else []


def counters_in_use(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if the counters of matching devices are exhausted."""
    short = next((s for s in loss.lost if context.view.missing_counters(s, context.held)), loss.lost[0])
    lacking = context.view.missing_counters(short, context.held)
    set_, counter, left, need = max(lacking, key=lambda x: (x[3] - x[2], x[1]))
    amount, rest = amount_text(need), amount_text(max(left, 0))
    nearest = NearestMiss(
        device=short.name, kind=short.kind, what=counter, actual=rest, wanted=amount, qualifier=f"left in {set_}"
    )
    holders = holders_of(loss)
    if holders:
        holding = holder_names(holders)
        verb, whose = ("is", "its") if len(loss.lost) == 1 else ("are", "their")
        summary = f"{device_names(loss.lost)} {verb} free, but {whose} shared counters are consumed by {holding}"
    else:
        verb = "needs" if len(loss.lost) == 1 else "need"
        summary = f"{device_names(loss.lost)} {verb} more of counter {counter} than counter set {set_} has"
    candidates = [*free_claims(holders), *_fewer_partitions(location, spec, trace)]
    return Cause("counters-exhausted", summary, location.claim, location.name, (trace,), nearest, tuple(candidates))


def groups_in_use(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if allocated devices of the same hardware exclude matching devices by their compatibility groups."""
    excluded = loss.lost[0]
    conflict = context.view.group_conflict(excluded, context.held)
    assert conflict is not None
    device, groups, holder = conflict.peers[0]
    verb, whose = ("is", "it has") if len(loss.lost) == 1 else ("are", "they have")
    summary = (
        f"{device_names(loss.lost)} {verb} free, but {whose} no compatibility group in common with {device.name} "
        f"({_group_names(groups)}), which shares {conflict.counter_set} and is held by {holder}"
    )
    nearest = NearestMiss(
        device=excluded.name,
        kind=excluded.kind,
        what="compatibility groups",
        actual=_group_names(conflict.groups),
        wanted=_group_names(groups),
    )
    candidates = [*free_claims(holders_of(loss)), *_fewer_partitions(location, spec, trace)]
    code = "compatibility-groups-in-use"
    return Cause(code, summary, location.claim, location.name, (trace,), nearest, tuple(candidates))


def _group_names(groups: tuple[str, ...]) -> str:
    return ", ".join(groups) or "none"


def devices_in_use(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if claims hold matching devices."""
    holders = holders_of(loss)
    holding = holder_names(holders)
    shared = [s for s, _ in loss.by if s.device.allow_multiple_allocations and s.id not in context.held.whole]
    if shared and not loss.left:
        return _share_in_use(context, location, spec, trace, shared[0], holders)
    if spec.allocation_mode == "All":
        verb = "is" if len(loss.lost) == 1 else "are"
        summary = f"all devices are requested, but {device_names(loss.lost)} {verb} in use by {holding}"
    elif loss.left:
        free = (
            f"{len(loss.left)} of {len(loss.arriving)} matching devices {'is' if len(loss.left) == 1 else 'are'} free"
        )
        summary = f"{counted(spec.count, 'device')} requested; {free}, and the rest are in use by {holding}"
    else:
        summary = f"every matching device is in use by {holding}"
    candidates = [*free_claims(holders)]
    if loss.left and spec.allocation_mode != "All":
        candidates.append(request_count(location, spec.count, len(loss.left)))
    if spec.allocation_mode == "All" and loss.left:
        candidates.append(exact_count(location, len(loss.left)))
    tainted = next((x for x in trace.losses if x.step == "taints" and x.lost), None)
    if tainted is not None:
        candidates.extend(devices_tainted(context, location, spec, trace, tainted, outcome).candidates[:1])
    return Cause("devices-in-use", summary, location.claim, location.name, (trace,), candidates=tuple(candidates))


def _share_in_use(
    context: NodeContext,
    location: RequestLocation,
    spec: RequestSpec,
    trace: Trace,
    device: VisibleDevice,
    holders: list[ClaimHolder],
) -> Cause:
    taken = context.view.consumed(device.device, spec.capacity) or {}
    for name, amount in taken.items():
        total = device.device.capacity[name].value
        used = sum(consumed.get(name, 0) for _, consumed in context.held.shares[device.id])
        if used + amount.nano <= total.nano:
            continue
        rest = amount_text(max(total.nano - used, 0))
        summary = (
            f"{amount} of {name} requested; {device.name} has {rest} of {total} left, and the rest is held by "
            f"{holder_names(holders)}"
        )
        nearest = NearestMiss(
            device=device.name, kind=device.kind, what=name, actual=rest, wanted=str(amount), qualifier="left"
        )
        requests = dict(spec.capacity.requests) if spec.capacity is not None else {}
        candidates = []
        if total.nano > used:
            candidates.append(smaller_amount(location, requests, name, Quantity.parse(rest)))
        candidates.extend(free_claims(holders))
        return Cause("capacity-in-use", summary, location.claim, location.name, (trace,), nearest, tuple(candidates))
    return Cause("capacity-in-use", f"no share of {device.name} is left", location.claim, location.name, (trace,))


def holders_of(loss: Loss) -> list[ClaimHolder]:
    """The claims that hold the devices or counters lost in this step, in order of appearance."""
    found: dict[ClaimHolder, None] = {}
    for _, holders in loss.by:
        found.update(dict.fromkeys(holders))
    return list(found)


def all_holders(traces: Iterable[Trace]) -> list[ClaimHolder]:
    """The claims that hold the devices or counters lost in these funnels."""
    taken = (loss for trace in traces for loss in trace.losses if loss.step in ("in-use", "counters", "groups"))
    return list(dict.fromkeys(holder for loss in taken for holder in holders_of(loss)))
