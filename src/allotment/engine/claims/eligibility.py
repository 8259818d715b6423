"""Whether a device suits a request, apart from what is allocated and chosen already.

The stages are upstream's: binding conditions (if their feature is off), the class's selectors, the request's, capacity,
counters (if their feature is off), taints. A selector that fails on a device is *poison*: it ends the search of the
pod on all nodes, but only if the search gets there. Devices that look the same to a pod's requests share one
``Profile``; selectors are evaluated once for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum
from typing import NamedTuple

from allotment.cel import CompileError, DeviceInput, EvaluationError, content_key
from allotment.engine.claims.capacity import consumption
from allotment.engine.claims.requests import BoundSelector, ClaimShape, Subrequest
from allotment.engine.cluster.devices import MAX_INTERNED, DeviceRecord, Traits, quantity_key
from allotment.engine.cluster.taints import blocking_taint
from allotment.engine.release import release
from allotment.model.features import Features
from allotment.model.quantity import Quantity

#: "no such key" gets this advice from 1.37 on.
_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)


class Stage(IntEnum):
    """The first test that a device fails for a request, in upstream's order."""

    BINDING = 0
    """It has binding conditions and DRADeviceBindingConditions is off."""
    CLASS = 1
    """A selector of the class is false, or fails."""
    SELECTOR = 2
    """A selector of the request is false, or fails."""
    CAPACITY = 3
    """It lacks a capacity that is asked for, has too little, or its policy refuses the amount."""
    COUNTERS = 4
    """It draws from counters and DRAPartitionableDevices is off."""
    TAINT = 5
    """It has a taint that the request does not tolerate."""
    NONE = 6
    """It suits."""


class SelectorFailure(NamedTuple):
    """A selector that fails on a device."""

    selector: BoundSelector
    text: str
    is_compile_error: bool
    """Whether it does not even compile."""


class MatchResult(NamedTuple):
    """How a device stands to one ask."""

    stage: Stage
    selector: BoundSelector | None
    """The selector that is false or fails, at the stages CLASS and SELECTOR."""
    failure: SelectorFailure | None
    consumed: Mapping[str, Quantity] | None
    """What an allocation takes of its capacities; ``None`` if its capacity does not suffice or is not looked at."""


class Profile:
    """What a pod's asks see in a device; sets of asks are bit masks over ``Ask.number``."""

    __slots__ = ("amounts", "eligible", "listed", "number", "failing", "selectable", "suits")

    def __init__(self, number: int, matches: tuple[MatchResult, ...], traits: Traits) -> None:
        self.number = number
        self.suits = matches
        self.selectable = self._subrequests(lambda s: s.stage > Stage.SELECTOR)
        self.listed = self._subrequests(lambda s: s.stage > Stage.CAPACITY)
        """Those whose ``All`` would include it."""
        self.eligible = self._subrequests(lambda s: s.stage is Stage.NONE)
        self.failing = self._subrequests(lambda s: s.failure is not None)
        self.amounts = tuple(
            tuple(s.consumed[name].nano for name in traits.limits) if s.consumed is not None else () for s in matches
        )
        """Per ask, what it consumes, in the order of ``Traits.limits``."""

    def _subrequests(self, test: Callable[[MatchResult], bool]) -> int:
        return sum(1 << i for i, suits in enumerate(self.suits) if test(suits))


class DeviceMatcher:
    """Examines devices for one shape; knows every profile that it has met."""

    def __init__(self, shape: ClaimShape, features: Features) -> None:
        self._shape = shape
        self._binding = features.enabled("DRADeviceBindingConditions")
        self._partitions = features.enabled("DRAPartitionableDevices")
        self._taints = features.enabled("DRADeviceTaints")
        self._capacity = features.enabled("DRAConsumableCapacity")
        self._milli = features.enabled("DRAFractionalCapacityRange")
        self._hints = release(features).errors_name_device
        self._project = _relevant_values(shape)
        self._profiles: dict[Hashable, Profile] = {}
        self._numbers = itertools.count()

    def profile(self, record: DeviceRecord) -> Profile:
        """What the shape's asks see in the device."""
        key = (record.traits.number, record.id.driver, self._project(record))
        found = self._profiles.get(key)
        if found is None:
            suits = tuple(self.match(ask, record) for ask in self._shape.subrequests)
            if len(self._profiles) >= MAX_INTERNED:
                self._profiles.clear()
            found = self._profiles[key] = Profile(next(self._numbers), suits, record.traits)
        return found

    def match(self, ask: Subrequest, record: DeviceRecord) -> MatchResult:
        """How a device stands to one ask."""
        traits = record.traits
        if traits.binding and not self._binding:
            return MatchResult(Stage.BINDING, None, None, None)
        device = DeviceInput(record.id.driver, record.device)
        for selector in ask.selectors:
            stage = Stage.SELECTOR if selector.of_class is None else Stage.CLASS
            if isinstance(selector.compiled, CompileError):
                return MatchResult(stage, selector, SelectorFailure(selector, str(selector.compiled), True), None)
            try:
                if not selector.compiled.matches(device):
                    return MatchResult(stage, selector, None, None)
            except EvaluationError as error:
                text = str(error)
                if self._hints and "no such key:" in text:
                    text += _KEY_HINT
                return MatchResult(stage, selector, SelectorFailure(selector, text, False), None)
        consumed: Mapping[str, Quantity] | None = None
        if self._capacity:
            consumed = consumption(record.device, ask.capacity, self._milli)
            if consumed is None:
                return MatchResult(Stage.CAPACITY, None, None, None)
        if traits.counters and not self._partitions:
            return MatchResult(Stage.COUNTERS, None, None, consumed)
        if self._taints and blocking_taint(traits.taints, ask.tolerations) is not None:
            return MatchResult(Stage.TAINT, None, None, consumed)
        return MatchResult(Stage.NONE, None, None, consumed)


def _relevant_values(shape: ClaimShape) -> Callable[[DeviceRecord], Hashable]:
    """What the shape's selectors read of a device, as a key: devices with equal keys fare alike."""
    paths: set[tuple[str, ...]] = set()
    for selector in {s.expression: s.compiled for ask in shape.subrequests for s in ask.selectors}.values():
        if isinstance(selector, CompileError):
            continue
        if selector.device_paths is None:
            return _all_values
        paths.update(selector.device_paths)
    keys: list[tuple[bool, str, str, str]] = []
    for path in sorted(paths):
        match path:
            case ("driver",) | ("allowMultipleAllocations",):
                pass  # always told apart
            case ("attributes" | "capacity", domain, name):
                keys.append((path[0] == "capacity", f"{domain}/{name}", domain, name))
            case _:
                return _all_values

    def project(record: DeviceRecord) -> Hashable:
        device, driver = record.device, record.id.driver
        if not record.plain:
            return _all_values(record)
        found: list[Hashable] = []
        for is_capacity, full, domain, name in keys:
            for key in (full, name) if domain == driver else (full,):
                if not is_capacity:
                    found.append(device.attributes.get(key))
                elif (capacity := device.capacity.get(key)) is None:
                    found.append(None)
                else:
                    found.append(quantity_key(capacity.value))
        return tuple(found)

    return project


def _all_values(record: DeviceRecord) -> Hashable:
    return content_key(record.id.driver, record.device)
