"""What the node offers at all: pools that do not count, capacities that are too small, taints."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace as altered

from allotment.engine.diagnosis.candidate_changes import ask_for, capacity_edit, complete_pool
from allotment.engine.diagnosis.context import Cause, Scene
from allotment.engine.diagnosis.funnel import Loss, Trace, Wanted, trace
from allotment.engine.diagnosis.published_names import did_you_mean, near
from allotment.engine.diagnosis.scenario import Asked, Candidate, Place, edit_request
from allotment.engine.diagnosis.selector_mismatch import too_few
from allotment.engine.diagnosis.visible_devices import Seen, View
from allotment.engine.diagnosis.wording import named
from allotment.engine.outcome import AbortCause as Abort
from allotment.engine.outcome import Aborted, Outcome
from allotment.engine.refusal import CODES, Miss
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceToleration
from allotment.phrases import counted


def by_capacity(scene: Scene, place: Place, asked: Asked, traced: Trace, loss: Loss, outcome: Outcome) -> Cause:
    """``capacity.requests`` above what a device has, or of a name that it does not have."""
    if loss.left:
        return too_few(place, asked, traced, len(loss.left))
    assert asked.capacity is not None
    requests = asked.capacity.requests
    unknown = [name for name in requests if all(name not in s.device.capacity for s in loss.arriving)]
    if unknown:
        known = sorted({name for s in loss.arriving for name in s.device.capacity})
        summary = f'no device publishes capacity "{unknown[0]}".' + (
            did_you_mean(unknown[0], known) or f" Published: {', '.join(known) or 'none'}"
        )
        renames = [
            capacity_edit(
                place, {(new if k == unknown[0] else k): v for k, v in requests.items()}, "name", f"ask for {new}"
            )
            for new in near(unknown[0], known) or tuple(k for k in known if k.partition("/")[2] == unknown[0])
        ]
        return Cause("unknown-attribute", summary, place.claim, place.name, (traced,), candidates=tuple(renames))
    best, name, has = _largest(loss.arriving, requests)
    if has is None:
        summary = f"no device can give {loss.text}; its request policy does not allow that amount"
        return Cause("not-enough-capacity", summary, place.claim, place.name, (traced,))
    nearest = Miss(device=best.name, kind=best.kind, what=name, actual=str(has), wanted=str(requests[name]))
    summary = f"{requests[name]} of {name} asked, the most that a device here has is {has}"
    smaller = capacity_edit(place, {**requests, name: has}, "less", f"ask for {has} of {name}")
    return Cause("not-enough-capacity", summary, place.claim, place.name, (traced,), nearest, (smaller,))


def _largest(arriving: tuple[Seen, ...], requests: dict[str, Quantity]) -> tuple[Seen, str, Quantity | None]:
    """The device with most of a capacity that no device has enough of."""
    for name, amount in requests.items():
        having = [s for s in arriving if name in s.device.capacity]
        best = max(having, key=lambda s: s.device.capacity[name].value.nano)
        has = best.device.capacity[name].value
        if has.nano < amount.nano:
            return best, name, has
    return arriving[0], next(iter(requests)), None


def by_taints(scene: Scene, place: Place, asked: Asked, traced: Trace, loss: Loss, outcome: Outcome) -> Cause:
    """Taints that the request does not tolerate."""
    lost = loss.lost
    if asked.allocation_mode == "All":
        summary = f"all devices are asked for, and {named(lost)} carr{'ies' if len(lost) == 1 else 'y'} a taint"
    elif loss.left:
        summary = f"{counted(asked.count, 'device')} asked, {len(loss.left)} of {len(loss.arriving)} are without taint"
    else:
        summary = f"every matching device is tainted ({', '.join(map(str, loss.taints))})"
    tolerations = tuple(
        DeviceToleration(key=t.key, operator="Equal", value=t.value, effect=t.effect)
        if t.value
        else DeviceToleration(key=t.key, operator="Exists", effect=t.effect)
        for t in loss.taints
    )
    tolerate = Candidate(
        "tolerate-device",
        f"tolerate {', '.join(map(str, loss.taints))}",
        edit_request(place, lambda old: altered(old, tolerations=(*old.tolerations, *tolerations))),
        place.object,
        f"{place.path}.tolerations",
        [msgspec.to_builtins(t) for t in (*asked.tolerations, *tolerations)],
    )
    candidates = [tolerate]
    if loss.left and asked.allocation_mode != "All":
        candidates.append(ask_for(place, asked.count, len(loss.left)))
    return Cause("devices-tainted", summary, place.claim, place.name, (traced,), candidates=tuple(candidates))


def withheld_pool(scene: Scene, place: Place, wanted: Wanted, traced: Trace) -> Cause | None:
    """Whether the devices would be there if a pool of the node counted."""
    if not scene.view.withheld or not wanted.count or len(traced.left) >= wanted.count:
        return None
    world = scene.world
    for pool in scene.view.withheld:
        hopeful = View(
            (*scene.view.devices, *pool.devices), (), scene.view.counters, scene.view.consumers, scene.view.milli
        )
        better = trace(wanted, hopeful, world.classes, scene.held, world.features)
        if len(better.left) > len(traced.left) or (not scene.view.devices and pool is scene.view.withheld[-1]):
            candidates: tuple[Candidate, ...] = ()
            if pool.why == "pool-incomplete":
                candidates = (complete_pool(pool.pool, surplus=pool.surplus),)
            kubernetes = CODES[pool.why].kubernetes
            return Cause(
                pool.why, pool.text, place.claim, place.name, (traced,), candidates=candidates, kubernetes=kubernetes
            )
    return None


def nothing_visible(scene: Scene, place: Place, traced: Trace) -> Cause:
    """The node sees no device at all."""
    published = scene.inquiry.published
    if not published.slices:
        summary = "there is no ResourceSlice, so no device is known"
        notes: tuple[str, ...] = ("Without slices nothing can be said of the names that the selectors use.",)
    else:
        summary = "no ResourceSlice offers a device to the node"
        notes = (f"Drivers elsewhere: {', '.join(sorted(published.drivers))}",)
    return Cause("driver-missing", summary, place.claim, place.name, (traced,), notes=notes)


def all_of_unknown(scene: Scene, place: Place, traced: Trace, outcome: Aborted) -> Cause:
    """``allocationMode: All`` while a pool is incomplete or invalid."""
    pools = [w for w in scene.view.withheld if w.why in ("pool-incomplete", "pool-invalid")]
    code = "all-pool-updating" if outcome.cause is Abort.POOL_INCOMPLETE else "all-pool-invalid"
    what = "; ".join(w.text for w in pools) or outcome.text
    candidates = [complete_pool(w.pool, surplus=w.surplus) for w in pools if w.why == "pool-incomplete"]
    return Cause(
        code,
        f"all devices are asked for, and {what}",
        place.claim,
        place.name,
        (traced,),
        candidates=tuple(candidates),
        kubernetes=outcome.text,
    )
