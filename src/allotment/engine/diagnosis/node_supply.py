"""Causes of refusal in the devices that a node offers: unusable pools, too small capacities, taints."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from msgspec.structs import replace as altered

from allotment.engine.diagnosis.candidate_changes import capacity_edit, complete_pool, request_count, smaller_amount
from allotment.engine.diagnosis.condition_text import comparable_text
from allotment.engine.diagnosis.context import Cause, NodeContext
from allotment.engine.diagnosis.funnel import DeviceQuery, Loss, Trace, trace_request
from allotment.engine.diagnosis.published_names import did_you_mean, similar_names, similarity
from allotment.engine.diagnosis.scenario import CandidateChange, RequestLocation, RequestSpec, Scenario, edit_request
from allotment.engine.diagnosis.selector_mismatch import too_few
from allotment.engine.diagnosis.stated_memory import is_memory
from allotment.engine.diagnosis.value_distance import sold_as
from allotment.engine.diagnosis.visible_devices import VisibleDevice, VisibleDevices
from allotment.engine.diagnosis.wording import device_names
from allotment.engine.outcome import AbortCause, Aborted, Outcome
from allotment.engine.refusal import CODES, NearestMiss
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import DeviceToleration
from allotment.phrases import counted


def not_enough_capacity(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if ``capacity.requests`` exceeds the capacity of every device, or names an unknown capacity."""
    if loss.left:
        return too_few(location, spec, trace, len(loss.left))
    assert spec.capacity is not None
    requests = spec.capacity.requests
    unknown = [name for name in requests if all(name not in s.device.capacity for s in loss.arriving)]
    if unknown:
        known = sorted({name for s in loss.arriving for name in s.device.capacity})
        summary = f'no device publishes capacity "{unknown[0]}".' + (
            did_you_mean(unknown[0], known) or f" Published: {', '.join(known) or 'none'}"
        )
        renames = [
            capacity_edit(
                location,
                {(new if k == unknown[0] else k): v for k, v in requests.items()},
                "name",
                f"request {new}",
                1.0 - similarity(unknown[0], new),
            )
            for new in similar_names(unknown[0], known) or tuple(k for k in known if k.partition("/")[2] == unknown[0])
        ]
        return Cause("unknown-attribute", summary, location.claim, location.name, (trace,), candidates=tuple(renames))
    best, name, has = _largest(loss.arriving, requests)
    if has is None:
        summary = f"no device can provide {loss.text}: the request policy does not allow this amount"
        return Cause("not-enough-capacity", summary, location.claim, location.name, (trace,))
    nearest = NearestMiss(device=best.name, kind=best.kind, what=name, actual=str(has), wanted=str(requests[name]))
    summary = f"{requests[name]} of {name} requested; the devices have at most {comparable_text(has, requests[name])}"
    candidates = [smaller_amount(location, requests, name, has)]
    published = [s.device.capacity[name].value for s in loss.arriving if name in s.device.capacity]
    sold = sold_as(requests[name], published) if is_memory(name) else None
    if sold is not None:
        text = f"request {sold.amount} of {name}: {sold.reason}"
        candidates.append(capacity_edit(location, {**requests, name: sold.amount}, "likely", text))
    return Cause("not-enough-capacity", summary, location.claim, location.name, (trace,), nearest, tuple(candidates))


def _largest(
    arriving: tuple[VisibleDevice, ...], requests: dict[str, Quantity]
) -> tuple[VisibleDevice, str, Quantity | None]:
    """The device with the largest amount of a capacity that no device has enough of."""
    for name, amount in requests.items():
        having = [s for s in arriving if name in s.device.capacity]
        best = max(having, key=lambda s: s.device.capacity[name].value.nano)
        has = best.device.capacity[name].value
        if has.nano < amount.nano:
            return best, name, has
    return arriving[0], next(iter(requests)), None


def devices_tainted(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if matching devices have taints that the request does not tolerate."""
    lost = loss.lost
    if spec.allocation_mode == "All":
        summary = f"all devices are requested, but {device_names(lost)} {'is' if len(lost) == 1 else 'are'} tainted"
    elif loss.left:
        free = f"{len(loss.left)} of {len(loss.arriving)} {'is' if len(loss.left) == 1 else 'are'} not tainted"
        summary = f"{counted(spec.count, 'device')} requested; {free}"
    else:
        summary = f"every matching device is tainted ({', '.join(map(str, loss.taints))})"
    tolerations = tuple(
        DeviceToleration(key=t.key, operator="Equal", value=t.value, effect=t.effect)
        if t.value
        else DeviceToleration(key=t.key, operator="Exists", effect=t.effect)
        for t in loss.taints
    )
    tolerate = CandidateChange(
        "tolerate-device",
        f"tolerate {', '.join(map(str, loss.taints))}",
        edit_request(location, lambda old: altered(old, tolerations=(*old.tolerations, *tolerations))),
        location.object,
        f"{location.path}.tolerations",
        [msgspec.to_builtins(t) for t in (*spec.tolerations, *tolerations)],
    )
    candidates = [tolerate]
    if loss.left and spec.allocation_mode != "All":
        candidates.append(request_count(location, spec.count, len(loss.left)))
    return Cause("devices-tainted", summary, location.claim, location.name, (trace,), candidates=tuple(candidates))


def unavailable_pool(
    context: NodeContext, location: RequestLocation, wanted: DeviceQuery, trace: Trace
) -> Cause | None:
    """The cause if the request would have more devices with a pool that is unusable now."""
    if not context.view.unavailable_pools or not wanted.count or len(trace.left) >= wanted.count:
        return None
    scenario = context.scenario
    for pool in context.view.unavailable_pools:
        completed = VisibleDevices(
            (*context.view.devices, *pool.devices),
            (),
            context.view.counters,
            context.view.consumers,
            context.view.rules,
        )
        better = trace_request(wanted, completed, scenario.classes, context.held, scenario.features)
        if len(better.left) > len(trace.left) or (
            not context.view.devices and pool is context.view.unavailable_pools[-1]
        ):
            candidates: tuple[CandidateChange, ...] = ()
            if pool.code == "pool-incomplete":
                candidates = (complete_pool(pool.pool, surplus=pool.has_surplus),)
            kubernetes = CODES[pool.code].kubernetes
            return Cause(
                pool.code,
                pool.text,
                location.claim,
                location.name,
                (trace,),
                candidates=candidates,
                kubernetes=kubernetes,
            )
    return None


def node_operations_unsupported(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if the node does not support devices whose preparation their driver skips."""
    gate, node = "DRAOptionalNodeOperations", context.scenario.node
    verb = "skips" if len(loss.lost) == 1 else "skip"
    devices = f"{device_names(loss.lost)} {verb} node operations"
    features = context.scenario.features
    if not features.enabled(gate):
        summary = f"{devices}, but the {gate} feature is disabled in the scheduler"
        text = f"enable the feature gate {gate} in the scheduler and in the kubelet of {node}"
    else:
        summary = f"{devices}, but node {node} does not declare the feature {gate}"
        text = f"enable the feature gate {gate} in the kubelet of {node}"

    def edit(scenario: Scenario) -> Scenario:
        gates = {**scenario.features.gates, gate: True}
        declared = scenario.declared_features | {gate}
        return replace(scenario, features=Features(scenario.features.kube, gates), declared_features=declared)

    declared = ", ".join(sorted(context.scenario.declared_features)) or "none"
    nearest = NearestMiss(f"node {node}", "declaredFeatures", declared, gate)
    candidates = [CandidateChange("enable", text, edit)]
    if loss.left and spec.allocation_mode != "All":
        candidates.append(request_count(location, spec.count, len(loss.left)))
    code = "node-feature-missing"
    return Cause(code, summary, location.claim, location.name, (trace,), nearest, tuple(candidates))


def no_visible_device(context: NodeContext, location: RequestLocation, trace: Trace) -> Cause:
    """The cause if the node sees no device."""
    published = context.shared.published
    if not published.slices:
        summary = "no ResourceSlice exists, so no devices are known"
        notes: tuple[str, ...] = ("Names in selectors cannot be checked without ResourceSlices.",)
    else:
        summary = "no ResourceSlice provides a device for the node"
        notes = (f"Drivers on other nodes: {', '.join(sorted(published.drivers))}",)
    return Cause("driver-missing", summary, location.claim, location.name, (trace,), notes=notes)


def all_with_unusable_pool(context: NodeContext, location: RequestLocation, trace: Trace, outcome: Aborted) -> Cause:
    """The cause if ``allocationMode: All`` is requested while a pool is incomplete or invalid."""
    pools = [w for w in context.view.unavailable_pools if w.code in ("pool-incomplete", "pool-invalid")]
    code = "all-pool-updating" if outcome.cause is AbortCause.POOL_INCOMPLETE else "all-pool-invalid"
    problem = "; ".join(w.text for w in pools) or outcome.text
    candidates = [complete_pool(w.pool, surplus=w.has_surplus) for w in pools if w.code == "pool-incomplete"]
    return Cause(
        code,
        f"all devices are requested, but {problem}",
        location.claim,
        location.name,
        (trace,),
        candidates=tuple(candidates),
        kubernetes=outcome.text,
    )
