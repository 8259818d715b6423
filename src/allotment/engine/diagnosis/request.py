"""The cause of refusal in one request, or one alternative of a request: the deciding step of its funnel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from allotment.cel import CompileError, compile_selector
from allotment.engine.diagnosis.candidate_changes import other_classes
from allotment.engine.diagnosis.context import Cause, NodeContext, query_of, requests_of
from allotment.engine.diagnosis.expression_correction import correct_expression
from allotment.engine.diagnosis.funnel import Loss, Trace
from allotment.engine.diagnosis.group_mismatch import fewer_of, groups_differ
from allotment.engine.diagnosis.in_use import counters_in_use, devices_in_use, groups_in_use
from allotment.engine.diagnosis.node_supply import (
    all_with_unusable_pool,
    devices_tainted,
    no_visible_device,
    node_operations_unsupported,
    not_enough_capacity,
    unavailable_pool,
)
from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.engine.diagnosis.scenario import (
    CandidateChange,
    RequestLocation,
    RequestSpec,
    Scenario,
    edit_class,
    edit_selector,
)
from allotment.engine.diagnosis.selector_mismatch import selector_mismatch, too_few
from allotment.engine.outcome import AbortCause, Aborted, Outcome
from allotment.phrases import counted


def request_cause(context: NodeContext, location: RequestLocation, spec: RequestSpec, outcome: Outcome) -> Cause:
    """The reason why this request alone does not fit on the node. ``outcome`` is the outcome of the engine."""
    wanted = query_of(location, spec)
    invalid = _invalid_selector(context, location, spec)
    if invalid is not None:
        return invalid
    trace = context.trace(wanted)
    if (
        isinstance(outcome, Aborted)
        and outcome.cause in (AbortCause.POOL_INCOMPLETE, AbortCause.POOL_INVALID)
        and not wanted.count
    ):
        return all_with_unusable_pool(context, location, trace, outcome)
    pool_cause = unavailable_pool(context, location, wanted, trace)
    if pool_cause is not None:
        return pool_cause
    if not trace.visible:
        return no_visible_device(context, location, trace)
    failing = next((loss for loss in trace.losses if loss.errors), None) if isinstance(outcome, Aborted) else None
    deciding = failing or _deciding_step(trace)
    if deciding is None:
        return _not_enough_together(context, location, spec, trace)
    return _BY_STEP[deciding.step](context, location, spec, trace, deciding, outcome)


def first_unknown_class(scenario: Scenario) -> Cause | None:
    """The cause of the first request whose class does not exist, if any: Kubernetes then examines no node."""
    for claim in scenario.claims:
        for location, spec in requests_of(claim):
            if spec.device_class_name not in scenario.classes:
                return unknown_class(scenario, location, spec.device_class_name)
    return None


def unknown_class(scenario: Scenario, location: RequestLocation, class_name: str) -> Cause:
    """The cause of a request with a missing class."""
    known = sorted(scenario.classes)
    summary = f'DeviceClass "{class_name}" does not exist.' + (
        did_you_mean(class_name, known)
        or (f" Existing classes: {', '.join(known)}" if known else " No DeviceClass exists.")
    )
    candidates = tuple(other_classes(location, class_name, dict.fromkeys(scenario.classes, "")))
    kubernetes = f"request {location.name}: device class {class_name} does not exist"
    return Cause("class-missing", summary, location.claim, location.name, candidates=candidates, kubernetes=kubernetes)


def _invalid_selector(context: NodeContext, location: RequestLocation, spec: RequestSpec) -> Cause | None:
    """The cause of a selector that does not compile, if there is one."""
    class_name = spec.device_class_name
    class_ = f"DeviceClass {class_name}"
    for object_, path, selectors in (
        (class_, "spec.selectors", context.scenario.classes[class_name].spec.selectors),
        (location.object, f"{location.path}.selectors", spec.selectors),
    ):
        for index, selector in enumerate(selectors):
            expression = selector.cel.expression if selector.cel else ""
            try:
                compile_selector(expression, context.scenario.features)
            except CompileError as error:
                where = f"{path}[{index}].cel.expression"
                first, *rest = str(error).splitlines()
                correction = correct_expression(expression)
                edit = partial(edit_class, class_name) if object_ == class_ else partial(edit_selector, location)
                return Cause(
                    "selector-invalid",
                    f"{object_}: {where}: {first}",
                    location.claim,
                    location.name,
                    candidates=(
                        (
                            CandidateChange(
                                "correction",
                                correction.text,
                                edit(index, correction.expression),
                                object_,
                                where,
                                correction.expression,
                            ),
                        )
                        if correction
                        else ()
                    ),
                    notes=tuple(rest),
                    kubernetes=f"Invalid value: {first}",
                )
    return None


#: Steps of the funnel that exclude devices which match in every other respect.
_AVAILABILITY = ("groups", "counters", "node-operations", "taints", "in-use")


def _deciding_step(trace: Trace) -> Loss | None:
    """The deciding step: the first selector that keeps no device, else the first step after which too few are left.

    None if the node has too few devices, or if the devices match individually but cannot be allocated together.
    """
    need = trace.query.count or 1
    for loss in trace.losses:
        if loss.step in ("class", "selector") and loss.lost and not loss.left:
            return loss
    for loss in trace.losses:
        if len(loss.left) < need <= len(loss.arriving):
            return loss
        if not trace.query.count and loss.lost and loss.step in _AVAILABILITY:
            return loss
    return None


_BY_STEP: dict[str, Callable[[NodeContext, RequestLocation, RequestSpec, Trace, Loss, Outcome], Cause]] = {
    "class": selector_mismatch,
    "selector": selector_mismatch,
    "capacity": not_enough_capacity,
    "node-operations": node_operations_unsupported,
    "groups": groups_in_use,
    "counters": counters_in_use,
    "taints": devices_tainted,
    "in-use": devices_in_use,
}


def _not_enough_together(context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace) -> Cause:
    """The cause if devices match individually but not together: too few, or they consume the same counters."""
    left = trace.left
    need = spec.count or 1
    if len(left) < need:
        matching = next((x.arriving for x in trace.losses if x.step in _AVAILABILITY), left)
        return too_few(location, spec, trace, len(matching))
    if any(member.groups for s in left for member in s.traits.groups):
        if context.fits_without_groups():
            return groups_differ(context, location.claim, location.name, (trace,), fewer_of(location, spec.count))
    if any(s.device.consumes_counters for s in left):
        summary = f"{counted(need, 'device')} requested; {len(left)} match, but they consume the same counters"
        candidates = fewer_of(location, need)
        return Cause("counters-exhausted", summary, location.claim, location.name, (trace,), candidates=candidates)
    summary = counted(len(left), "device matches", "devices match")
    return Cause("not-explained", summary, location.claim, location.name, (trace,))
