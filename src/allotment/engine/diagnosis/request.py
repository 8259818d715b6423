"""Why one request, or one alternative of a request, finds nothing: the step of its funnel that decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from allotment.cel import CompileError, compile_selector
from allotment.engine.diagnosis.candidate_changes import ask_for, other_classes
from allotment.engine.diagnosis.context import Cause, Scene, places, wanted_of
from allotment.engine.diagnosis.funnel import Loss, Trace
from allotment.engine.diagnosis.in_use import by_counters, by_use
from allotment.engine.diagnosis.miswritten import meant
from allotment.engine.diagnosis.node_supply import (
    all_of_unknown,
    by_capacity,
    by_taints,
    nothing_visible,
    withheld_pool,
)
from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.engine.diagnosis.scenario import Asked, Candidate, Place, World, edit_class, edit_selector
from allotment.engine.diagnosis.selector_mismatch import by_selector, too_few
from allotment.engine.outcome import AbortCause as Abort
from allotment.engine.outcome import Aborted, Outcome
from allotment.phrases import counted


def exact(scene: Scene, place: Place, asked: Asked, outcome: Outcome) -> Cause:
    """Why this request, alone on the node, is refused. ``outcome`` is what the engine said to it."""
    wanted = wanted_of(place, asked)
    invalid = _invalid_selector(scene, place, asked)
    if invalid is not None:
        return invalid
    traced = scene.trace(wanted)
    if (
        isinstance(outcome, Aborted)
        and outcome.cause in (Abort.POOL_INCOMPLETE, Abort.POOL_INVALID)
        and not wanted.count
    ):
        return all_of_unknown(scene, place, traced, outcome)
    withheld = withheld_pool(scene, place, wanted, traced)
    if withheld is not None:
        return withheld
    if not traced.visible:
        return nothing_visible(scene, place, traced)
    failing = next((loss for loss in traced.losses if loss.errors), None) if isinstance(outcome, Aborted) else None
    blamed = failing or _blamed(traced)
    if blamed is None:
        return _not_enough_together(scene, place, asked, traced)
    return _BY_STEP[blamed.step](scene, place, asked, traced, blamed, outcome)


def first_unknown_class(world: World) -> Cause | None:
    """The first request of the pod whose class does not exist, if there is one: Kubernetes then looks at no node."""
    for claim in world.claims:
        for place, asked in places(claim):
            if asked.device_class_name not in world.classes:
                return unknown_class(world, place, asked.device_class_name)
    return None


def unknown_class(world: World, place: Place, class_name: str) -> Cause:
    """A request that names a class that is not there."""
    known = sorted(world.classes)
    summary = f'DeviceClass "{class_name}" does not exist.' + (
        did_you_mean(class_name, known) or (f" Classes here: {', '.join(known)}" if known else " There is none at all.")
    )
    candidates = tuple(other_classes(world, place, class_name))
    kubernetes = f"request {place.name}: device class {class_name} does not exist"
    return Cause("class-missing", summary, place.claim, place.name, candidates=candidates, kubernetes=kubernetes)


def _invalid_selector(scene: Scene, place: Place, asked: Asked) -> Cause | None:
    """A selector that no API server accepts; the engine stops at it with an error of its own."""
    class_name = asked.device_class_name
    class_ = f"DeviceClass {class_name}"
    for object_, path, selectors in (
        (class_, "spec.selectors", scene.world.classes[class_name].spec.selectors),
        (place.object, f"{place.path}.selectors", asked.selectors),
    ):
        for index, selector in enumerate(selectors):
            expression = selector.cel.expression if selector.cel else ""
            try:
                compile_selector(expression, scene.world.features)
            except CompileError as error:
                where = f"{path}[{index}].cel.expression"
                first, *rest = str(error).splitlines()
                mended = meant(expression)
                edit = partial(edit_class, class_name) if object_ == class_ else partial(edit_selector, place)
                return Cause(
                    "selector-invalid",
                    f"{object_}: {where}: {first}",
                    place.claim,
                    place.name,
                    candidates=(
                        (
                            Candidate(
                                "slip", mended.words, edit(index, mended.expression), object_, where, mended.expression
                            ),
                        )
                        if mended
                        else ()
                    ),
                    notes=tuple(rest),
                    kubernetes=f"Invalid value: {first}",
                )
    return None


def _blamed(traced: Trace) -> Loss | None:
    """The step that decides: the first selector that keeps nothing, else the first that makes too few of enough.

    None if the node has too few devices to begin with, or if each device is possible and only all together are not.
    """
    need = traced.wanted.count or 1
    for loss in traced.losses:
        if loss.step in ("class", "selector") and loss.lost and not loss.left:
            return loss
    for loss in traced.losses:
        if len(loss.left) < need <= len(loss.arriving):
            return loss
        if not traced.wanted.count and loss.lost and loss.step in ("counters", "taints", "in-use"):
            return loss
    return None


_BY_STEP: dict[str, Callable[[Scene, Place, Asked, Trace, Loss, Outcome], Cause]] = {
    "class": by_selector,
    "selector": by_selector,
    "capacity": by_capacity,
    "counters": by_counters,
    "taints": by_taints,
    "in-use": by_use,
}


def _not_enough_together(scene: Scene, place: Place, asked: Asked, traced: Trace) -> Cause:
    """Each device is possible, so many of them together are not: they draw on the same counters, or are too few."""
    left = traced.left
    need = asked.count or 1
    if len(left) < need:
        matching = next((x.arriving for x in traced.losses if x.step in ("counters", "taints", "in-use")), left)
        return too_few(place, asked, traced, len(matching))
    if any(s.device.consumes_counters for s in left):
        summary = f"{counted(need, 'device')} asked; {len(left)} match, but they draw on the same counters"
        counts = sorted({need - 1, need // 2, 1} - {0, need}, reverse=True)
        candidates = tuple(ask_for(place, need, c) for c in counts)
        return Cause("counters-exhausted", summary, place.claim, place.name, (traced,), candidates=candidates)
    return Cause("not-explained", f"{len(left)} devices match", place.claim, place.name, (traced,))
