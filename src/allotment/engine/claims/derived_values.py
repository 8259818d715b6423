"""Values of derived attributes (DRADerivedAttributes, 1.37), evaluated once per distinct projection of the devices.

A constraint reads the value after a device passes all other tests. An expression that fails there ends the search for
the pod on all nodes, like a selector; one that fails on a device that the search never reaches has no effect.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from allotment.cel import CompileError, DeviceInput, EvaluationError
from allotment.engine.claims.constraints import DerivedExpression
from allotment.engine.claims.projection import Projection, projection
from allotment.engine.cluster.devices import MAX_INTERNED, DeviceRecord
from allotment.model.resource import DeviceAttribute


class DerivedFailure(NamedTuple):
    """The error of an expression on a device, with CEL's text."""

    text: str
    is_compile_error: bool
    """Whether the expression does not compile."""


class DerivedValues:
    """The values of expressions for devices."""

    def __init__(self) -> None:
        self._projections: dict[str, Projection] = {}
        self._values: dict[Hashable, DeviceAttribute | DerivedFailure] = {}

    def of(self, derived: DerivedExpression, record: DeviceRecord) -> DeviceAttribute | DerivedFailure:
        """The value for a device, from the cache if it is known for a device that is equal for the expression."""
        compiled = derived.compiled
        if isinstance(compiled, CompileError):
            return DerivedFailure(str(compiled), True)
        project = self._projections.get(derived.expression)
        if project is None:
            project = self._projections[derived.expression] = projection(compiled.device_paths)
        key = (derived.expression, record.traits.number, record.id.driver, project(record))
        found = self._values.get(key)
        if found is None:
            try:
                found = compiled.evaluate(DeviceInput(record.id.driver, record.device))
            except EvaluationError as error:
                found = DerivedFailure(str(error), False)
            if len(self._values) >= MAX_INTERNED:
                self._values.clear()
            self._values[key] = found
        return found
