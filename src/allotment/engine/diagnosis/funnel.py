"""The funnel of one request on one node: which devices each condition loses, in the order of the reasons.

Kubernetes tests device by device and stops at the first that fails; here every device is tested against every
condition in turn, so that the counts add up and each loss has one place. A device that is itself held counts as lost
to its holder, not to the counters that it consumes itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from allotment.cel import (
    CompileError,
    Conjunct,
    DeviceInput,
    DeviceReference,
    EvaluationError,
    Selector,
    compile_selector,
)
from allotment.engine.cluster.taints import blocking_taint
from allotment.engine.diagnosis.holders import Holder, Holdings
from allotment.engine.diagnosis.selector_conditions import one_line
from allotment.engine.diagnosis.visible_devices import Seen, View
from allotment.engine.refusal import Funnel, Step
from allotment.model.features import Features
from allotment.model.resource import CapacityRequirements, DeviceClass, DeviceSelector, DeviceTaint, DeviceToleration


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request or an alternative of one, in the form that both have."""

    claim: str
    name: str
    device_class: str
    selectors: tuple[DeviceSelector, ...]
    count: int  # 0 means all
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: CapacityRequirements | None
    path: str  # of the request in the claim's spec


@dataclass(frozen=True, slots=True)
class Loss:
    """A step of the funnel with what a reason needs beside its counts."""

    step: str
    text: str
    arriving: tuple[Seen, ...]
    left: tuple[Seen, ...]
    conjunct: Conjunct | None = None
    names: tuple[DeviceReference, ...] = ()
    of_class: bool = False
    selector: int = 0
    position: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)
    by: tuple[tuple[Seen, tuple[Holder, ...]], ...] = ()
    taints: tuple[DeviceTaint, ...] = ()

    @property
    def lost(self) -> tuple[Seen, ...]:
        """The devices that this step took out."""
        kept = {id(seen) for seen in self.left}
        return tuple(seen for seen in self.arriving if id(seen) not in kept)


@dataclass(frozen=True, slots=True)
class Trace:
    """A funnel with its devices; ``value()`` is what a `Refused` carries of it."""

    wanted: Wanted
    visible: tuple[Seen, ...]
    losses: tuple[Loss, ...]

    @property
    def left(self) -> tuple[Seen, ...]:
        """The devices that pass every step."""
        return self.losses[-1].left if self.losses else self.visible

    def value(self) -> Funnel:
        """Counts and names."""
        return Funnel(
            claim=self.wanted.claim,
            request=self.wanted.name,
            device_class=self.wanted.device_class,
            wanted=self.wanted.count,
            visible=len(self.visible),
            steps=tuple(_step(loss) for loss in self.losses),
        )


def _step(loss: Loss) -> Step:
    named: dict[str, list[str]] = {}
    for seen, holders in loss.by:
        for holder in holders:
            named.setdefault(str(holder), []).append(seen.name)
    by = tuple(f"{who}: {', '.join(devices)}" for who, devices in named.items())
    return Step(step=loss.step, text=loss.text, left=len(loss.left), lost=tuple(s.name for s in loss.lost), by=by)


def trace(wanted: Wanted, view: View, classes: Mapping[str, DeviceClass], held: Holdings, features: Features) -> Trace:
    """Run every visible device through the conditions of ``wanted``."""
    losses: list[Loss] = []
    left: tuple[Seen, ...] = view.devices
    class_ = classes.get(wanted.device_class)
    for of_class, selectors in ((True, class_.spec.selectors if class_ else ()), (False, wanted.selectors)):
        for number, selector in enumerate(selectors):
            for loss in _select(selector, number, left, of_class, wanted.device_class, features):
                losses.append(loss)
                left = loss.left
    # Taints before counters, unlike the engine (the outcome is the same): what does not depend on other claims comes
    # first, so that of two steps that lose devices the one that waiting cannot mend is told.
    for step in (_capacity, _taints, _counters, _in_use):
        found = step(wanted, left, view, held, features)
        if found is not None:
            losses.append(found)
            left = found.left
    return Trace(wanted, view.devices, tuple(losses))


def compiled(expression: str, features: Features) -> Selector | None:
    """The selector, or None when it does not compile."""
    try:
        return compile_selector(expression, features)
    except CompileError:
        return None


def _select(
    selector: DeviceSelector, number: int, left: tuple[Seen, ...], of_class: bool, class_name: str, features: Features
) -> list[Loss]:
    """One loss per conjunct, each against what the conjuncts before it left."""
    program = compiled(selector.cel.expression if selector.cel else "", features)
    if program is None:
        return []
    losses = []
    for position, conjunct in enumerate(program.conjuncts):
        arriving = left
        kept: list[Seen] = []
        errors: dict[str, str] = {}
        for seen in arriving:
            try:
                if conjunct.matches(DeviceInput(seen.driver, seen.device)):
                    kept.append(seen)
            except EvaluationError as error:
                if _false(program, seen):
                    kept.append(seen)  # `error && false` is false: a later condition takes it out
                else:
                    errors[seen.name] = str(error)
        left = tuple(kept)
        text = one_line(conjunct.text)
        losses.append(
            Loss(
                step="class" if of_class else "selector",
                text=f"class {class_name}: {text}" if of_class else text,
                arriving=arriving,
                left=left,
                conjunct=conjunct,
                names=tuple(r for r in program.references if conjunct.start <= r.pos < conjunct.stop),
                of_class=of_class,
                selector=number,
                position=position,
                errors=errors,
            )
        )
    return losses


def _false(program: Selector, seen: Seen) -> bool:
    """Whether the whole selector is false for a device, in spite of an error in a part of it."""
    try:
        return not program.matches(DeviceInput(seen.driver, seen.device))
    except EvaluationError:
        return False


def _capacity(
    wanted: Wanted, arriving: tuple[Seen, ...], view: View, held: Holdings, features: Features
) -> Loss | None:
    """Amounts asked for by ``capacity.requests`` against what the device has in all (KEP-5075)."""
    if wanted.capacity is None or not wanted.capacity.requests:
        return None
    text = "capacity " + ", ".join(f"{name} {amount}" for name, amount in wanted.capacity.requests.items())
    left = tuple(seen for seen in arriving if view.consumed(seen.device, wanted.capacity) is not None)
    return Loss("capacity", text, arriving, left)


def _counters(
    wanted: Wanted, arriving: tuple[Seen, ...], view: View, held: Holdings, features: Features
) -> Loss | None:
    """Shared counters, less what held devices of the pool consume of them (KEP-4815)."""
    if not any(seen.device.consumes_counters for seen in arriving):
        return None
    kept: list[Seen] = []
    by: list[tuple[Seen, tuple[Holder, ...]]] = []
    for seen in arriving:
        blocking = view.blocking(seen, held)
        if blocking is None:
            kept.append(seen)
        else:
            by.append((seen, blocking))
    return Loss("counters", "counters of the card", arriving, tuple(kept), by=tuple(by))


def _taints(wanted: Wanted, arriving: tuple[Seen, ...], view: View, held: Holdings, features: Features) -> Loss | None:
    """Taints that the request does not tolerate (KEP-5055)."""
    if not features.enabled("DRADeviceTaints") or not any(seen.traits.taints for seen in arriving):
        return None
    kept: list[Seen] = []
    found: dict[tuple[str, str, str], DeviceTaint] = {}
    for seen in arriving:
        taints = [t for t in seen.traits.taints if blocking_taint((t,), wanted.tolerations)]
        if not taints:
            kept.append(seen)
        for taint in taints:
            found[taint.key, taint.value, taint.effect] = taint
    text = "taints" + ("" if not found else " " + ", ".join(map(str, found.values())))
    return Loss("taints", text, arriving, tuple(kept), taints=tuple(found.values()))


def _in_use(wanted: Wanted, arriving: tuple[Seen, ...], view: View, held: Holdings, features: Features) -> Loss | None:
    """Devices taken whole, and shareable ones without enough capacity left."""
    if wanted.admin:
        return None
    kept: list[Seen] = []
    by: list[tuple[Seen, tuple[Holder, ...]]] = []
    for seen in arriving:
        if seen.id in held.whole or not view.share_fits(seen, wanted.capacity, held):
            by.append((seen, tuple(held.of(seen.id))))
        else:
            kept.append(seen)
    if not by:
        return None
    return Loss("in-use", "in use", arriving, tuple(kept), by=tuple(by))
