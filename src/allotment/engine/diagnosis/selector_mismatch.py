"""Causes of refusal in selectors: a condition matches no device or too few, or fails with an error."""

from __future__ import annotations

import re
from dataclasses import replace

from allotment.cel import DeviceInput, EvaluationError
from allotment.engine.diagnosis.candidate_changes import other_classes, request_count
from allotment.engine.diagnosis.condition_repairs import ConditionRepair
from allotment.engine.diagnosis.condition_text import one_line, value_text
from allotment.engine.diagnosis.context import Cause, NodeContext
from allotment.engine.diagnosis.funnel import Loss, Trace, compile_or_none, driver_of, has_device
from allotment.engine.diagnosis.mig_profiles import how_to_enable
from allotment.engine.diagnosis.scenario import (
    CandidateChange,
    Edit,
    RequestLocation,
    RequestSpec,
    edit_class,
    edit_selector,
)
from allotment.engine.diagnosis.selector_conditions import ConditionFinding, explain_condition
from allotment.engine.diagnosis.stated_memory import stated_memory
from allotment.engine.diagnosis.visible_devices import VisibleDevice
from allotment.engine.outcome import Aborted, Outcome
from allotment.model.written_amounts import intended_amount, is_quantity
from allotment.phrases import counted

_QUANTITY = re.compile(r"""(quantity\(\s*)(["'])([^"']*)\2""")
#: Number of smaller counts that are tried; a server has eight devices.
_COUNTS = 8
_ACCESSOR = re.compile(
    r"(device\.(?:attributes|capacity)\s*\[[^\]]*\]\s*\.\s*\w+)\.(string|version|int|bool|quantity|value)\b"
)


def selector_mismatch(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, trace: Trace, loss: Loss, outcome: Outcome
) -> Cause:
    """The cause if a condition matches no device or too few, or fails with an error."""
    assert loss.conjunct is not None
    if loss.left and not loss.errors:
        return too_few(location, spec, trace, len(loss.left))
    arriving = [s for s in loss.arriving if s.name in loss.errors] if loss.errors else list(loss.arriving)
    scenario = context.scenario
    finding = explain_condition(
        loss.conjunct,
        loss.names,
        arriving,
        context.shared.published,
        of_class=loss.of_class,
        stated=stated_memory(scenario.classes.get(spec.device_class_name), spec, scenario.features),
        in_use=context.shared.in_use,
    )
    kubernetes = outcome.text if isinstance(outcome, Aborted) else ""
    if loss.errors and finding.code in ("selector-matches-nothing", "class-matches-nothing", "not-enough-capacity"):
        device, text = next(iter(loss.errors.items()))
        units = _kubernetes_units(loss)
        if units:
            text = units[0].text.partition(": ")[2]
        finding = ConditionFinding(
            "selector-fails",
            f"{one_line(loss.conjunct.text)} fails on device {device}: {text}",
            None,
            (*_without_accessor(loss), *units, *_guards(arriving, loss), *finding.repairs),
        )
    elif not loss.errors:
        finding = _excluded_by_earlier(trace, loss, finding)
    candidates = _repairs(context, location, spec, loss, finding.repairs)
    if loss.of_class:
        devices, features, own = context.view.devices, scenario.features, spec.device_class_name
        usable = {
            name: driver_of(class_, features)
            for name, class_ in scenario.classes.items()
            if name == own or has_device(class_, devices, features)
        }
        candidates.extend(other_classes(location, own, usable))
    return Cause(
        finding.code,
        finding.summary,
        location.claim,
        location.name,
        (trace,),
        finding.nearest,
        tuple(candidates),
        notes=how_to_enable(loss.conjunct.comparison, context.shared.published),
        kubernetes=kubernetes,
    )


def _excluded_by_earlier(trace: Trace, loss: Loss, finding: ConditionFinding) -> ConditionFinding:
    """The finding extended by devices that satisfy this condition but not an earlier one."""
    if finding.code not in ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity"):
        return finding
    contradiction = _contradiction(trace, loss)
    if contradiction:
        code = "class-matches-nothing" if loss.of_class else "selector-matches-nothing"
        return ConditionFinding(code, contradiction, finding.nearest, finding.repairs)
    if loss.of_class:
        return finding
    of_class = next((x.arriving for x in trace.losses if x.step == "selector"), ())
    earlier = [x for x in trace.losses if x.step == "selector" and x.lost and x is not loss]
    assert loss.conjunct is not None
    others = [s for s in of_class if s not in loss.arriving and _holds(loss, s)]
    if not others or not earlier:
        return finding
    summary = f"{finding.summary}; {others[0].name} meets this condition, but not {earlier[-1].text}"
    return ConditionFinding("selector-matches-nothing", summary, finding.nearest, finding.repairs)


def _contradiction(trace: Trace, loss: Loss) -> str:
    """A sentence about two contradictory conditions; empty if no earlier condition contradicts this one."""
    own = loss.conjunct.comparison if loss.conjunct is not None else None
    if own is None or own.operator != "==":
        return ""
    for earlier in trace.losses:
        if earlier is loss or earlier.conjunct is None:
            break
        comparison = earlier.conjunct.comparison
        if (
            comparison is not None
            and comparison.path == own.path
            and comparison.operator == "=="
            and comparison.literal != own.literal
        ):
            name = own.path[-1]
            return f"{name} cannot be both {value_text(comparison.literal)} and {value_text(own.literal)}"
    return ""


def _holds(loss: Loss, visible: VisibleDevice) -> bool:
    assert loss.conjunct is not None
    try:
        return loss.conjunct.matches(DeviceInput(visible.driver, visible.device))
    except EvaluationError:
        return False


def _guards(arriving: list[VisibleDevice], loss: Loss) -> tuple[ConditionRepair, ...]:
    """Repairs that test the driver first, so that the lookup is not evaluated on devices of other drivers."""
    assert loss.conjunct is not None
    good = sorted({s.driver for s in loss.arriving if s.name not in loss.errors} - {s.driver for s in arriving})
    return tuple(
        ConditionRepair(
            "name", f'test device.driver == "{d}" first', f'device.driver == "{d}" && {one_line(loss.conjunct.text)}'
        )
        for d in good
    )


def _without_accessor(loss: Loss) -> tuple[ConditionRepair, ...]:
    """A repair that removes an accessor: objects contain ``{string: …}``, but in CEL an attribute is the value."""
    assert loss.conjunct is not None
    text = one_line(loss.conjunct.text)
    found = _ACCESSOR.search(text)
    if found is None:
        return ()
    return (
        ConditionRepair(
            "name", f"remove .{found[2]}: in CEL, the attribute itself is the value", _ACCESSOR.sub(r"\1", text)
        ),
    )


def _kubernetes_units(loss: Loss) -> tuple[ConditionRepair, ...]:
    """A repair of quantities with units that Kubernetes does not have: it has no B for bytes, and case matters."""
    assert loss.conjunct is not None
    text = one_line(loss.conjunct.text)
    wrong = [found[3] for found in _QUANTITY.finditer(text) if not is_quantity(found[3]) and intended_amount(found[3])]
    if not wrong:
        return ()
    words = f"write {intended_amount(wrong[0])}: Kubernetes has no unit {wrong[0].strip().lstrip('0123456789. ')}"
    becomes = _QUANTITY.sub(
        lambda found: f"{found[1]}{found[2]}{intended_amount(found[3]) or found[3]}{found[2]}", text
    )
    return (ConditionRepair("name", words, becomes),)


def _repairs(
    context: NodeContext, location: RequestLocation, spec: RequestSpec, loss: Loss, repairs: tuple[ConditionRepair, ...]
) -> list[CandidateChange]:
    """Repairs of one condition as candidate changes of the whole selector."""
    class_name = spec.device_class_name
    selectors = context.scenario.classes[class_name].spec.selectors if loss.of_class else spec.selectors
    cel = selectors[loss.selector].cel
    program = compile_or_none(cel.expression, context.scenario.features) if cel else None
    if program is None:
        return []
    texts = [one_line(c.text) for c in program.conjuncts]
    found = []
    for repair in repairs:
        if repair.rename:
            changed = [re.sub(*repair.rename, text) for text in texts]
        elif _plain_quotes(repair.becomes) in map(_plain_quotes, texts):
            continue
        else:
            changed = [repair.becomes if i == loss.position else text for i, text in enumerate(texts)]
        if changed == texts:
            continue
        kept = [text for text in changed if text]
        expression = " && ".join(_grouped(text) for text in kept) if len(kept) > 1 else "".join(kept)
        edit: Edit
        if loss.of_class:
            # A class serves many claims, so changing it is a larger change, unless a name is misspelled.
            remedy = "class-name" if repair.rename else "of-class"
            edit = edit_class(class_name, loss.selector, expression)
            object_, path = f"DeviceClass {class_name}", f"spec.selectors[{loss.selector}].cel.expression"
            words = f"in DeviceClass {class_name}, {repair.text}"
        else:
            remedy, words = repair.remedy, repair.text
            edit = edit_selector(location, loss.selector, expression)
            object_, path = location.object, f"{location.path}.selectors[{loss.selector}].cel.expression"
        if not expression:  # the selector is removed with its last condition
            path = path.removesuffix(".cel.expression")
        change = CandidateChange(remedy, words, edit, object_, path, expression or None)
        found.append(replace(change, size=repair.size, devices=repair.devices))
    return found


def _plain_quotes(text: str) -> str:
    return text.replace("'", '"')


def _grouped(text: str) -> str:
    return f"({text})" if ("||" in text or "?" in text) and not text.startswith("(") else text


def too_few(location: RequestLocation, spec: RequestSpec, trace: Trace, left: int) -> Cause:
    """The cause if fewer devices match than requested."""
    visible = len(trace.visible)
    have = f"{left} of {counted(visible, 'device')} match" if left != visible else f"the node has {visible}"
    if left == 1 and left != visible:
        have = f"1 of {counted(visible, 'device')} matches"
    # Start with the number of matching devices; some of them may be in use.
    candidates = [request_count(location, spec.count, count) for count in range(left, max(left - _COUNTS, 0), -1)]
    return Cause(
        "too-few-devices",
        f"{counted(spec.count, 'device')} requested; {have}",
        location.claim,
        location.name,
        (trace,),
        candidates=tuple(candidates),
    )
