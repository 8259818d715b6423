"""A class or selector condition keeps nothing, too little, or stops with an error."""

from __future__ import annotations

import re

from allotment.cel import DeviceInput, EvaluationError
from allotment.engine.diagnosis.candidate_changes import ask_for, other_classes
from allotment.engine.diagnosis.context import Cause, Scene
from allotment.engine.diagnosis.funnel import Loss, Trace, compiled
from allotment.engine.diagnosis.scenario import Asked, Candidate, Edit, Place, edit_class, edit_selector
from allotment.engine.diagnosis.selector_conditions import Finding, Repair, examine, one_line, shown
from allotment.engine.diagnosis.visible_devices import Seen
from allotment.engine.outcome import Aborted, Outcome
from allotment.phrases import counted

_UNIT = re.compile(
    r"""(?P<before>quantity\(\s*["'])(?P<number>[0-9.]+)\s*(?P<unit>(?P<prefix>[kKmMgGtTpP])(?P<binary>i?)[bB]?)(?=["'])"""
)
#: So many smaller counts are tried: a server has eight devices.
_COUNTS = 8
_ACCESSOR = re.compile(
    r"(device\.(?:attributes|capacity)\s*\[[^\]]*\]\s*\.\s*\w+)\.(string|version|int|bool|quantity|value)\b"
)


def by_selector(scene: Scene, place: Place, asked: Asked, traced: Trace, loss: Loss, outcome: Outcome) -> Cause:
    """A class or selector condition keeps nothing, too little, or stops with an error."""
    assert loss.conjunct is not None
    if loss.left and not loss.errors:
        return too_few(place, asked, traced, len(loss.left))
    arriving = [s for s in loss.arriving if s.name in loss.errors] if loss.errors else list(loss.arriving)
    finding = examine(loss.conjunct, loss.names, arriving, scene.inquiry.published, of_class=loss.of_class)
    kubernetes = outcome.text if isinstance(outcome, Aborted) else ""
    if loss.errors and finding.code in ("selector-matches-nothing", "class-matches-nothing", "not-enough-capacity"):
        device, text = next(iter(loss.errors.items()))
        finding = Finding(
            "selector-fails",
            f"{one_line(loss.conjunct.text)} stops with an error on device {device}: {text}",
            None,
            (*_without_accessor(loss), *_of_kubernetes(loss), *_guards(arriving, loss), *finding.repairs),
        )
    elif not loss.errors:
        finding = _excluding(traced, loss, finding)
    candidates = _repairs(scene, place, asked, loss, finding.repairs)
    if loss.of_class:
        candidates.extend(other_classes(scene.world, place, asked.device_class_name))
    return Cause(
        finding.code,
        finding.summary,
        place.claim,
        place.name,
        (traced,),
        finding.nearest,
        tuple(candidates),
        kubernetes=kubernetes,
    )


def _excluding(traced: Trace, loss: Loss, finding: Finding) -> Finding:
    """Devices of the class that satisfy this condition, but not the ones before it."""
    if finding.code not in ("class-matches-nothing", "selector-matches-nothing", "not-enough-capacity"):
        return finding
    contradiction = _contradicted(traced, loss)
    if contradiction:
        code = "class-matches-nothing" if loss.of_class else "selector-matches-nothing"
        return Finding(code, contradiction, finding.nearest, finding.repairs)
    if loss.of_class:
        return finding
    of_class = next((x.arriving for x in traced.losses if x.step == "selector"), ())
    earlier = [x for x in traced.losses if x.step == "selector" and x.lost and x is not loss]
    assert loss.conjunct is not None
    others = [s for s in of_class if s not in loss.arriving and _holds(loss, s)]
    if not others or not earlier:
        return finding
    summary = f"{finding.summary}; {others[0].name} would do, but not for {earlier[-1].text}"
    return Finding("selector-matches-nothing", summary, finding.nearest, finding.repairs)


def _contradicted(traced: Trace, loss: Loss) -> str:
    """The sentence for two conditions that no device can satisfy together; empty if there is no such earlier one."""
    mine = loss.conjunct.comparison if loss.conjunct is not None else None
    if mine is None or mine.operator != "==":
        return ""
    for earlier in traced.losses:
        if earlier is loss or earlier.conjunct is None:
            break
        other = earlier.conjunct.comparison
        if other is not None and other.path == mine.path and other.operator == "==" and other.literal != mine.literal:
            what = mine.path[-1]
            return f"{what} must be {shown(other.literal)} and {shown(mine.literal)} at once, which no device can be"
    return ""


def _holds(loss: Loss, seen: Seen) -> bool:
    assert loss.conjunct is not None
    try:
        return loss.conjunct.matches(DeviceInput(seen.driver, seen.device))
    except EvaluationError:
        return False


def _guards(arriving: list[Seen], loss: Loss) -> tuple[Repair, ...]:
    """Put a test of the driver in front, so that devices of other drivers never reach the lookup."""
    assert loss.conjunct is not None
    good = sorted({s.driver for s in loss.arriving if s.name not in loss.errors} - {s.driver for s in arriving})
    return tuple(
        Repair(
            "name", f'test device.driver == "{d}" first', f'device.driver == "{d}" && {one_line(loss.conjunct.text)}'
        )
        for d in good
    )


def _without_accessor(loss: Loss) -> tuple[Repair, ...]:
    """Objects print an attribute as ``{string: …}``; in CEL it is its value, which has no such field."""
    assert loss.conjunct is not None
    text = one_line(loss.conjunct.text)
    found = _ACCESSOR.search(text)
    if found is None:
        return ()
    return (Repair("name", f"leave out .{found[2]}, for in CEL it is the value itself", _ACCESSOR.sub(r"\1", text)),)


def _of_kubernetes(loss: Loss) -> tuple[Repair, ...]:
    """A quantity with a unit as people write it: Kubernetes has no B for bytes, and cares for small and capital."""
    assert loss.conjunct is not None
    text = one_line(loss.conjunct.text)
    found = _UNIT.search(text)
    if found is None:
        return ()
    number, prefix, binary = found["number"], found["prefix"].upper(), found["binary"]
    becomes = [f"{number}{prefix}i"] if binary else [f"{number}{prefix.replace('K', 'k')}", f"{number}{prefix}i"]
    return tuple(
        Repair(
            remedy, f"write {right}, for Kubernetes has no unit {found['unit']}", _UNIT.sub(rf"\g<before>{right}", text)
        )
        for remedy, right in zip(("name", "likely"), becomes, strict=False)
        if right != f"{number}{found['unit']}"
    )


def _repairs(scene: Scene, place: Place, asked: Asked, loss: Loss, repairs: tuple[Repair, ...]) -> list[Candidate]:
    """Repairs of one condition as edits of the whole selector."""
    class_name = asked.device_class_name
    selectors = scene.world.classes[class_name].spec.selectors if loss.of_class else asked.selectors
    cel = selectors[loss.selector].cel
    program = compiled(cel.expression, scene.world.features) if cel else None
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
            # A class serves many claims: changing it is more than changing the claim, unless it is plainly misspelt.
            remedy = "likely" if repair.rename else "of-class"
            edit = edit_class(class_name, loss.selector, expression)
            object_, path = f"DeviceClass {class_name}", f"spec.selectors[{loss.selector}].cel.expression"
            words = f"in DeviceClass {class_name} {repair.words}"
        else:
            remedy, words = repair.remedy, repair.words
            edit = edit_selector(place, loss.selector, expression)
            object_, path = place.object, f"{place.path}.selectors[{loss.selector}].cel.expression"
        if not expression:  # the selector goes with its last condition
            path = path.removesuffix(".cel.expression")
        found.append(Candidate(remedy, words, edit, object_, path, expression or None))
    return found


def _plain_quotes(text: str) -> str:
    return text.replace("'", '"')


def _grouped(text: str) -> str:
    return f"({text})" if ("||" in text or "?" in text) and not text.startswith("(") else text


def too_few(place: Place, asked: Asked, traced: Trace, left: int) -> Cause:
    """Devices match, but not as many as are asked for."""
    visible = len(traced.visible)
    have = f"{left} of {counted(visible, 'device')} match" if left != visible else f"the node has {visible}"
    if left == 1 and left != visible:
        have = f"1 of {counted(visible, 'device')} matches"
    # As many as match; some of them may be in use.
    candidates = [ask_for(place, asked.count, count) for count in range(left, max(left - _COUNTS, 0), -1)]
    return Cause(
        "too-few-devices",
        f"{counted(asked.count, 'device')} asked, {have}",
        place.claim,
        place.name,
        (traced,),
        candidates=tuple(candidates),
    )
