"""Fused closures for the most common shape of selectors: one value of the device compared with a literal.

Each has the result and the cost of the general closures in a single call. They apply to paths with constant keys:
``device.driver``, ``device.attributes["d"].name``, ``device.capacity["d"].name``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allotment.cel.evaluation import cost
from allotment.cel.evaluation.equality import equal
from allotment.cel.evaluation.steps import COST, DEVICE, Frame, Run
from allotment.cel.evaluation.values import (
    ABSENT,
    CelError,
    Key,
    ListValue,
    QuantityPointer,
    Uint,
    Value,
    map_key,
    no_such_overload,
)
from allotment.model.quantity import Quantity

_HASHABLE_TYPES: Final = frozenset({bool, int, Uint, float, str})


def membership(compute: Run, constants: ListValue) -> Run | Value:
    """``value in constants`` as a set lookup. ABSENT if the list is empty (the result is always false, and the value is
    not evaluated); None if an element is not hashable."""
    if not constants.size:
        return ABSENT
    if any(type(item) not in _HASHABLE_TYPES for item in constants.items):
        return None
    keys: set[Key] = set()
    for item in constants.items:
        keys.update(_equal_keys(item))
    found = frozenset(keys)

    def run(frame: Frame) -> Value:
        value = compute(frame)
        return (value if type(value) is str else map_key(value)) in found

    return run


def _equal_keys(value: Value) -> list[Key]:
    """The map keys of all numbers that are equal to a value."""
    kind = type(value)
    keys = [map_key(value)]
    if kind is float:
        if -(2.0**63) < value < 2.0**63 and value == int(value):
            keys.append(int(value))
        if 0 <= value < 2.0**64 and value == int(value):
            keys.append(("uint", int(value)))
    elif kind is int:
        keys.append(("double", float(value)))
        if value >= 0:
            keys.append(("uint", value))
    elif kind is Uint:
        keys.append(("double", float(value)))
        if value < 2**63:
            keys.append(int(value))
    return keys


_NO_VALUES: Final[dict[str, Value]] = {}


def value_at(keys: tuple[str, ...], charge: int) -> Run | None:
    """The value at a path; costs ``charge`` and 1 for each selection. None for other paths."""
    if len(keys) == 1:
        return _field(keys[0], 1 + charge)
    if len(keys) == 2 and keys[0] in ("attributes", "capacity"):
        return _domain(keys[0], keys[1], 2 + charge)
    if len(keys) == 3 and keys[0] in ("attributes", "capacity"):
        return _value(keys[0], keys[1], keys[2], 3 + charge)
    return None


def _field(name: str, charge: int) -> Run | None:
    if name == "driver":

        def driver(frame: Frame) -> Value:
            frame[COST] += charge
            return frame[DEVICE].driver

        return driver
    if name == "allowMultipleAllocations":

        def multiple(frame: Frame) -> Value:
            frame[COST] += charge
            return frame[DEVICE].allow_multiple_allocations

        return multiple
    return None


def _domain(kind: str, domain: str, charge: int) -> Run:
    def run(frame: Frame) -> Value:
        frame[COST] += charge
        return frame[DEVICE].domain(kind, domain)

    return run


def _value(kind: str, domain: str, name: str, charge: int) -> Run:
    missing = f"no such key: {name}"
    if kind == "attributes":

        def attribute(frame: Frame) -> Value:
            frame[COST] += charge
            found = frame[DEVICE].attributes.get(domain, _NO_VALUES).get(name, ABSENT)
            if found is ABSENT:
                raise CelError(missing)
            return found

        return attribute

    def capacity(frame: Frame) -> Value:
        frame[COST] += charge
        found = frame[DEVICE].capacity.get(domain, _NO_VALUES).get(name, ABSENT)
        if found is ABSENT:
            raise CelError(missing)
        return found

    return capacity


def is_present(kind: str, domain: str, name: str) -> Run:
    """``has(device.attributes["d"].name)``; ``has`` refunds the charge for the path."""

    def run(frame: Frame) -> Value:
        frame[COST] += 3
        device = frame[DEVICE]
        return name in (device.attributes if kind == "attributes" else device.capacity).get(domain, _NO_VALUES)

    return run


# --- equality with a literal -------------------------------------------------------------------------------------


def not_equal(left: Value, right: Value) -> bool:
    """``left != right``: as upstream, everything except ``true`` from ``==`` gives true, including an error."""
    try:
        return not equal(left, right)
    except CelError:
        return True


def equals_text(first: Run, text: str, expected: bool) -> Run:
    """``value == "text"``, or ``!=`` if not ``expected``."""
    length = len(text)
    # The cost by the length of the value; the shorter of the two texts counts.
    charges = cost.TRAVERSAL[: min(length, 1024) + 1]
    known = len(charges)
    full_cost = cost.equality(text, text)
    charge_of = cost.equality if expected else cost.inequality

    def run(frame: Frame) -> Value:
        try:
            value = first(frame)
        except CelError:
            frame[COST] += 1 if length else 0
            raise
        if type(value) is str:
            size = len(value)
            frame[COST] += charges[size] if size < known else full_cost if size >= length else charge_of(value, text)
            return (value == text) is expected
        frame[COST] += charge_of(value, text)
        return equal(value, text) if expected else not_equal(value, text)

    return run


def driver_equals(text: str, expected: bool) -> Run:
    """``device.driver == "text"``"""
    length = len(text)
    full_cost = 2 + cost.equality(text, text)

    def run(frame: Frame) -> Value:
        driver = frame[DEVICE].driver
        frame[COST] += full_cost if len(driver) >= length else 2 + cost.equality(driver, text)
        return (driver == text) is expected

    return run


def attribute_equals_text(domain: str, name: str, text: str, expected: bool) -> Run:
    """``device.attributes["d"].name == "text"``"""
    missing = f"no such key: {name}"
    length = len(text)
    full_cost = 4 + cost.equality(text, text)
    failed = 4 + (1 if length else 0)
    charge_of = cost.equality if expected else cost.inequality

    def run(frame: Frame) -> Value:
        value = frame[DEVICE].attributes.get(domain, _NO_VALUES).get(name, ABSENT)
        if type(value) is str:
            frame[COST] += full_cost if len(value) >= length else 4 + charge_of(value, text)
            return (value == text) is expected
        if value is ABSENT:
            frame[COST] += failed
            raise CelError(missing)
        frame[COST] += 4 + charge_of(value, text)
        return equal(value, text) if expected else not_equal(value, text)

    return run


def equals_scalar(first: Run, scalar: int, expected: bool) -> Run:
    """``value == 7``, ``value == true`` and the like."""
    kind = type(scalar)
    charge_of = cost.equality if expected else cost.inequality

    def run(frame: Frame) -> Value:
        try:
            value = first(frame)
        except CelError:
            frame[COST] += 1
            raise
        if type(value) is kind:
            frame[COST] += 1
            return (value == scalar) is expected
        frame[COST] += charge_of(value, scalar)
        return equal(value, scalar) if expected else not_equal(value, scalar)

    return run


# --- order -------------------------------------------------------------------------------------------------------


def order_with_int(
    first: Run, fast: Callable[[Any, Any], bool], slow: Callable[[Value, Value], Value], number: int, charge: int
) -> Run:
    """``value < 7`` and the like; ``slow`` compares values other than ints."""

    def run(frame: Frame) -> Value:
        try:
            value = first(frame)
        except CelError:
            frame[COST] += charge
            raise
        frame[COST] += charge
        return fast(value, number) if type(value) is int else slow(value, number)

    return run


def compare_quantity(first: Run, fast: Callable[[Any, Any], bool], expected: Quantity, number: int, charge: int) -> Run:
    """``value.compareTo(quantity("1Gi")) >= 0`` and the like; ``charge`` is the cost of everything except the value."""
    nano = expected.nano

    def run(frame: Frame) -> Value:
        try:
            value = first(frame)
        except CelError:
            frame[COST] += charge
            raise
        frame[COST] += charge
        kind = type(value)
        if kind is Quantity or kind is QuantityPointer:
            found = value.nano
            return fast((found > nano) - (found < nano), number)
        raise no_such_overload("compareTo", (value, expected))

    return run
