"""The funnel of one request on one node: the devices that each condition excludes, step by step.

Kubernetes tests device by device and stops at the first test that fails; here all devices pass through the conditions
in order, so that the counts add up and each device is excluded by one step. A device in use is excluded by the step
``in-use``, not because of the counters that it consumes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
from allotment.engine.diagnosis.condition_text import one_line
from allotment.engine.diagnosis.holders import ClaimHolder, HeldDevices
from allotment.engine.diagnosis.reader import other_claims
from allotment.engine.diagnosis.visible_devices import VisibleDevice, VisibleDevices
from allotment.engine.refusal import Funnel, FunnelStep
from allotment.model.features import Features
from allotment.model.resource import (
    CapacityRequirements,
    DeviceClass,
    DeviceDerivedAttribute,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
)


@dataclass(frozen=True, slots=True)
class DeviceQuery:
    """The devices that an exact request, or an alternative of a request, selects."""

    claim: str
    name: str
    device_class: str
    selectors: tuple[DeviceSelector, ...]
    count: int  # 0 means all
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: CapacityRequirements | None
    path: str  # of the request in the claim's spec
    derived: tuple[DeviceDerivedAttribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Loss:
    """A step of the funnel with its devices and the details for the reason."""

    step: str
    text: str
    arriving: tuple[VisibleDevice, ...]
    left: tuple[VisibleDevice, ...]
    conjunct: Conjunct | None = None
    names: tuple[DeviceReference, ...] = ()
    of_class: bool = False
    selector: int = 0
    position: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)
    by: tuple[tuple[VisibleDevice, tuple[ClaimHolder, ...]], ...] = ()
    taints: tuple[DeviceTaint, ...] = ()

    @property
    def lost(self) -> tuple[VisibleDevice, ...]:
        """The devices that this step excludes."""
        kept = {id(visible) for visible in self.left}
        return tuple(visible for visible in self.arriving if id(visible) not in kept)


@dataclass(frozen=True, slots=True)
class Trace:
    """A funnel with its devices; ``value()`` converts it to the public value."""

    query: DeviceQuery
    visible: tuple[VisibleDevice, ...]
    losses: tuple[Loss, ...]

    @property
    def left(self) -> tuple[VisibleDevice, ...]:
        """The devices that pass every step."""
        return self.losses[-1].left if self.losses else self.visible

    def value(self) -> Funnel:
        """The public value, with counts and names."""
        return Funnel(
            claim=self.query.claim,
            request=self.query.name,
            device_class=self.query.device_class,
            wanted=self.query.count,
            visible=len(self.visible),
            steps=tuple(_step(loss) for loss in self.losses),
        )


def _step(loss: Loss) -> FunnelStep:
    named: dict[str, dict[str, None]] = {}
    hidden = {holder for _, holders in loss.by for holder in holders if holder.is_hidden}
    for visible, holders in loss.by:
        for holder in holders:
            text = other_claims(len(hidden)) if holder.is_hidden else str(holder)
            named.setdefault(text, {})[visible.name] = None
    by = tuple(f"{holder}: {', '.join(devices)}" for holder, devices in named.items())
    visible_claims = dict.fromkeys(holder.claim for _, holders in loss.by for holder in holders if not holder.is_hidden)
    lost = tuple(visible.name for visible in loss.lost)
    return FunnelStep(
        step=loss.step, text=loss.text, left=len(loss.left), lost=lost, by=by, claims=tuple(visible_claims)
    )


def trace_request(
    wanted: DeviceQuery, view: VisibleDevices, classes: Mapping[str, DeviceClass], held: HeldDevices, features: Features
) -> Trace:
    """Pass all visible devices through the conditions of ``wanted``."""
    losses: list[Loss] = []
    left: tuple[VisibleDevice, ...] = view.devices
    class_ = classes.get(wanted.device_class)
    for of_class, selectors in ((True, class_.spec.selectors if class_ else ()), (False, wanted.selectors)):
        for number, selector in enumerate(selectors):
            for loss in _select(selector, number, left, of_class, wanted.device_class, features):
                losses.append(loss)
                left = loss.left
    # Taints before counters, unlike the engine (the outcome is the same): steps that do not depend on other claims come
    # first, so that of two steps that exclude devices the one that waiting cannot fix is reported.
    for step in (_capacity, _node_operations, _taints, _compatibility_groups, _counters, _in_use):
        found = step(wanted, left, view, held, features)
        if found is not None:
            losses.append(found)
            left = found.left
    return Trace(wanted, view.devices, tuple(losses))


def driver_of(class_: DeviceClass, features: Features) -> str:
    """The driver that the selectors of a class require; empty if they require none."""
    for selector in class_.spec.selectors:
        program = compile_or_none(selector.cel.expression if selector.cel else "", features)
        for conjunct in program.conjuncts if program is not None else ():
            compared = conjunct.comparison
            if compared is not None and compared.path == ("driver",) and compared.operator == "==":
                return str(compared.literal)
    return ""


def has_device(class_: DeviceClass, devices: Iterable[VisibleDevice], features: Features) -> bool:
    """Whether the selectors of a class match any of the devices."""
    programs = [compile_or_none(s.cel.expression if s.cel else "", features) for s in class_.spec.selectors]
    return any(all(program is not None and _true(program, visible) for program in programs) for visible in devices)


def _true(program: Selector, visible: VisibleDevice) -> bool:
    try:
        return bool(program.matches(DeviceInput(visible.driver, visible.device)))
    except EvaluationError:
        return False


def compile_or_none(expression: str, features: Features) -> Selector | None:
    """The compiled selector, or None if it does not compile."""
    try:
        return compile_selector(expression, features)
    except CompileError:
        return None


def _select(
    selector: DeviceSelector,
    number: int,
    left: tuple[VisibleDevice, ...],
    of_class: bool,
    class_name: str,
    features: Features,
) -> list[Loss]:
    """One step per conjunct of the selector."""
    program = compile_or_none(selector.cel.expression if selector.cel else "", features)
    if program is None:
        return []
    losses = []
    for position, conjunct in enumerate(program.conjuncts):
        arriving = left
        kept: list[VisibleDevice] = []
        errors: dict[str, str] = {}
        for visible in arriving:
            try:
                if conjunct.matches(DeviceInput(visible.driver, visible.device)):
                    kept.append(visible)
            except EvaluationError as error:
                if _false(program, visible):
                    kept.append(visible)  # `error && false` is false: a later condition excludes it
                else:
                    errors[visible.name] = str(error)
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


def _false(program: Selector, visible: VisibleDevice) -> bool:
    """Whether the whole selector is false for a device although a part of it raises an error."""
    try:
        return not program.matches(DeviceInput(visible.driver, visible.device))
    except EvaluationError:
        return False


def _capacity(
    wanted: DeviceQuery,
    arriving: tuple[VisibleDevice, ...],
    view: VisibleDevices,
    held: HeldDevices,
    features: Features,
) -> Loss | None:
    """Amounts in ``capacity.requests`` compared with the total capacity of the device (KEP-5075)."""
    if wanted.capacity is None or not wanted.capacity.requests:
        return None
    text = "capacity " + ", ".join(f"{name} {amount}" for name, amount in wanted.capacity.requests.items())
    left = tuple(visible for visible in arriving if view.consumed(visible.device, wanted.capacity) is not None)
    return Loss("capacity", text, arriving, left)


def _node_operations(
    wanted: DeviceQuery,
    arriving: tuple[VisibleDevice, ...],
    view: VisibleDevices,
    held: HeldDevices,
    features: Features,
) -> Loss | None:
    """Slices that skip node operations, which the node must support (DRAOptionalNodeOperations)."""
    left = tuple(visible for visible in arriving if visible.is_supported)
    if len(left) == len(arriving):
        return None
    return Loss("node-operations", "skipped node operations", arriving, left)


def _compatibility_groups(
    wanted: DeviceQuery,
    arriving: tuple[VisibleDevice, ...],
    view: VisibleDevices,
    held: HeldDevices,
    features: Features,
) -> Loss | None:
    """Compatibility groups, compared with those of allocated devices that consume the same counters (KEP-5941)."""
    if not any(member.groups for visible in arriving for member in visible.traits.groups):
        return None

    def holders(visible: VisibleDevice) -> tuple[ClaimHolder, ...] | None:
        conflict = view.group_conflict(visible, held)
        return None if conflict is None else tuple(dict.fromkeys(holder for _, _, holder in conflict.peers))

    return _held_by_others("groups", "compatibility groups", arriving, holders)


def _counters(
    wanted: DeviceQuery,
    arriving: tuple[VisibleDevice, ...],
    view: VisibleDevices,
    held: HeldDevices,
    features: Features,
) -> Loss | None:
    """Shared counters, minus the consumption of allocated devices of the pool (KEP-4815)."""
    if not any(visible.device.consumes_counters for visible in arriving):
        return None
    return _held_by_others("counters", "shared counters", arriving, lambda visible: view.counter_holders(visible, held))


def _taints(
    wanted: DeviceQuery,
    arriving: tuple[VisibleDevice, ...],
    view: VisibleDevices,
    held: HeldDevices,
    features: Features,
) -> Loss | None:
    """Taints that the request does not tolerate (KEP-5055)."""
    if not features.enabled("DRADeviceTaints") or not any(visible.traits.taints for visible in arriving):
        return None
    kept: list[VisibleDevice] = []
    found: dict[tuple[str, str, str], DeviceTaint] = {}
    for visible in arriving:
        taints = [t for t in visible.traits.taints if blocking_taint((t,), wanted.tolerations)]
        if not taints:
            kept.append(visible)
        for taint in taints:
            found[taint.key, taint.value, taint.effect] = taint
    text = "taints" + ("" if not found else " " + ", ".join(map(str, found.values())))
    return Loss("taints", text, arriving, tuple(kept), taints=tuple(found.values()))


def _in_use(
    wanted: DeviceQuery,
    arriving: tuple[VisibleDevice, ...],
    view: VisibleDevices,
    held: HeldDevices,
    features: Features,
) -> Loss | None:
    """Devices that are in use, and shareable devices without enough capacity left."""
    if wanted.admin:
        return None

    def holders(visible: VisibleDevice) -> tuple[ClaimHolder, ...] | None:
        if visible.id in held.whole or not view.share_fits(visible, wanted.capacity, held):
            return tuple(held.holders_of(visible.id))
        return None

    loss = _held_by_others("in-use", "in use", arriving, holders)
    return loss if loss.by else None


def _held_by_others(
    step: str,
    text: str,
    arriving: tuple[VisibleDevice, ...],
    holders: Callable[[VisibleDevice], tuple[ClaimHolder, ...] | None],
) -> Loss:
    """The devices that allocated claims exclude; ``holders``: these claims, or None for a device that remains."""
    found = [(visible, holders(visible)) for visible in arriving]
    kept = tuple(visible for visible, blocking in found if blocking is None)
    by = tuple((visible, blocking) for visible, blocking in found if blocking is not None)
    return Loss(step, text, arriving, kept, by=by)
