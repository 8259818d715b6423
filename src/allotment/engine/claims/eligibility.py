"""Determines whether a device matches a request, independent of current allocations and of other choices.

The stages are upstream's: binding conditions (if their feature is off), selectors of the class, selectors of the
request, capacity, counters (if their feature is off), taints. A selector that *fails* (raises an error) on a device
ends the search for the pod on all nodes, but only if the search reaches that device. Devices that are equal with
respect to a pod's requests share one ``Profile``, for which selectors are evaluated once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping
from enum import IntEnum
from typing import NamedTuple

from allotment.cel import CompileError, DeviceInput, EvaluationError
from allotment.engine.claims.capacity import CapacityError, CapacityRules, consumption
from allotment.engine.claims.derived_values import DerivedValues
from allotment.engine.claims.projection import ALL_VALUES, Projection, projection
from allotment.engine.claims.requests import BoundSelector, ClaimShape, Subrequest
from allotment.engine.cluster.devices import MAX_INTERNED, DeviceRecord, Traits
from allotment.engine.cluster.taints import blocking_taint
from allotment.engine.release import release
from allotment.model.features import Features
from allotment.model.quantity import Quantity

#: Advice that upstream adds to "no such key" from 1.37.
_KEY_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() "
    "for optional fields"
)


class Stage(IntEnum):
    """The first test that a device fails for a request, in upstream's order."""

    BINDING = 0
    """The device has binding conditions and DRADeviceBindingConditions is off."""
    CLASS = 1
    """A selector of the class is false, or fails."""
    SELECTOR = 2
    """A selector of the request is false, or fails."""
    CAPACITY = 3
    """A requested capacity is missing or too small, or its policy rejects the amount."""
    COUNTERS = 4
    """The device consumes counters and DRAPartitionableDevices is off."""
    TAINT = 5
    """The request does not tolerate a taint of the device."""
    NONE = 6
    """The device passes all tests."""


class SelectorFailure(NamedTuple):
    """The error of a selector on a device."""

    selector: BoundSelector
    text: str
    is_compile_error: bool
    """Whether the selector does not compile."""


class MatchResult(NamedTuple):
    """The result of testing a device for one subrequest."""

    stage: Stage
    selector: BoundSelector | None
    """The selector that is false or fails, at the stages CLASS and SELECTOR."""
    failure: SelectorFailure | None
    consumed: Mapping[str, Quantity] | None
    """The capacity that an allocation consumes; ``None`` if it is not sufficient or not examined."""
    capacity_error: str = ""
    """The error at the stage CAPACITY that ends the attempt (from 1.37)."""


class Profile:
    """The match results of a device for all subrequests of a pod; masks have a bit per ``Subrequest.number``."""

    __slots__ = ("amounts", "eligible", "failing", "listed", "matches", "number", "selectable", "unmeasurable")

    def __init__(self, number: int, matches: tuple[MatchResult, ...], traits: Traits) -> None:
        self.number = number
        self.matches = matches
        self.selectable = self._subrequests(lambda s: s.stage > Stage.SELECTOR)
        self.listed = self._subrequests(lambda s: s.stage > Stage.CAPACITY)
        """Subrequests whose ``All`` would include the device."""
        self.eligible = self._subrequests(lambda s: s.stage is Stage.NONE)
        self.failing = self._subrequests(lambda s: s.failure is not None)
        self.unmeasurable = self._subrequests(lambda s: bool(s.capacity_error))
        """Subrequests for which the capacity fails with an error."""
        self.amounts = tuple(
            tuple(s.consumed[name].nano for name in traits.limits) if s.consumed is not None else () for s in matches
        )
        """Per subrequest the consumed amounts, in the order of ``Traits.limits``."""

    def _subrequests(self, test: Callable[[MatchResult], bool]) -> int:
        return sum(1 << i for i, match in enumerate(self.matches) if test(match))


class DeviceMatcher:
    """Matches devices against one shape and caches their profiles."""

    def __init__(self, shape: ClaimShape, features: Features) -> None:
        self._shape = shape
        self._binding = features.enabled("DRADeviceBindingConditions")
        self._partitions = features.enabled("DRAPartitionableDevices")
        self._taints = features.enabled("DRADeviceTaints")
        self._capacity = features.enabled("DRAConsumableCapacity")
        self._capacity_rules = CapacityRules.of(features)
        self._hints = release(features).errors_name_device
        self._project = _relevant_values(shape)
        self._profiles: dict[Hashable, Profile] = {}
        self._numbers = itertools.count()
        self.derived = DerivedValues()

    def profile(self, record: DeviceRecord) -> Profile:
        """The profile of a device, from the cache if an equal device was matched before."""
        key = (record.traits.number, record.id.driver, self._project(record))
        found = self._profiles.get(key)
        if found is None:
            matches = tuple(self.match(subrequest, record) for subrequest in self._shape.subrequests)
            if len(self._profiles) >= MAX_INTERNED:
                self._profiles.clear()
            found = self._profiles[key] = Profile(next(self._numbers), matches, record.traits)
        return found

    def match(self, subrequest: Subrequest, record: DeviceRecord) -> MatchResult:
        """Test a device for one subrequest."""
        traits = record.traits
        if traits.binding and not self._binding:
            return MatchResult(Stage.BINDING, None, None, None)
        device = DeviceInput(record.id.driver, record.device)
        for selector in subrequest.selectors:
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
            try:
                consumed = consumption(record.device, subrequest.capacity, self._capacity_rules)
            except CapacityError as error:
                return MatchResult(Stage.CAPACITY, None, None, None, str(error))
            if consumed is None:
                return MatchResult(Stage.CAPACITY, None, None, None)
        if traits.counters and not self._partitions:
            return MatchResult(Stage.COUNTERS, None, None, consumed)
        if self._taints and blocking_taint(traits.taints, subrequest.tolerations) is not None:
            return MatchResult(Stage.TAINT, None, None, consumed)
        return MatchResult(Stage.NONE, None, None, consumed)


def _relevant_values(shape: ClaimShape) -> Projection:
    """The projection to the values that the shape's selectors read."""
    paths: set[tuple[str, ...]] = set()
    for selector in {
        s.expression: s.compiled for subrequest in shape.subrequests for s in subrequest.selectors
    }.values():
        if isinstance(selector, CompileError):
            continue
        if selector.device_paths is None:
            return ALL_VALUES
        paths.update(selector.device_paths)
    return projection(paths)
