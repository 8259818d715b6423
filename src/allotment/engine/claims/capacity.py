"""Consumable capacity (KEP-5075): the amount of a device that an allocation consumes, and whether it is allowed.

Every allocation of a shareable device consumes some of *each* capacity: the requested amount, rounded by the capacity's
policy; without a request, the policy's default; without a default, all of it. For a device that cannot be shared, the
same comparison is only a filter.

From 1.37, an amount that int64 cannot represent ends the allocation attempt, as does a negative one; and with
DRAFractionalCapacityRange, ranges whose bounds and step are multiples of a thousandth are rounded in thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.engine.release import release
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

NANO: Final = 10**9
_MILLI: Final = 10**6
_MAX_INT64: Final = 2**63 - 1


class CapacityRules(NamedTuple):
    """The features and release differences that affect consumed capacity."""

    milli: bool = False
    """Whether DRAFractionalCapacityRange is on."""
    errors: bool = False
    """Whether amounts that cannot be represented, and negative ones, are errors (from 1.37)."""

    @staticmethod
    def of(features: Features) -> CapacityRules:
        """The rules of a cluster with these features."""
        return CapacityRules(features.enabled("DRAFractionalCapacityRange"), release(features).capacity_errors)


_WHOLE_UNITS: Final = CapacityRules()


class CapacityError(ValueError):
    """Raised for an amount that ends the allocation attempt; the text is upstream's."""


def consumption(
    device: Device, requests: Mapping[str, Quantity] | None, rules: CapacityRules = _WHOLE_UNITS
) -> dict[str, Quantity] | None:
    """The amount of each capacity that an allocation consumes, or ``None`` if the device can never meet the request.

    Names must be those that the device uses: ``memory`` is not ``gpu.example.com/memory``. Raises ``CapacityError``
    under the rules of 1.37; before, a negative amount, which validation accepts and 1.36 would add to the free
    capacity, is refused like one that is too large.
    """
    if requests and any(name not in device.capacity for name in requests):
        return None
    taken: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        try:
            taken[name] = _amount(requests.get(name) if requests else None, capacity, rules)
        except CapacityError as error:
            raise CapacityError(f'capacity "{name}": {error}') from None
        if rules.errors and taken[name].nano < 0:
            raise CapacityError(f'capacity "{name}": capacity value is negative')
    for name, capacity in device.capacity.items():
        amount = taken[name]
        if not 0 <= amount.nano <= capacity.value.nano or _violates(amount, capacity.request_policy, rules):
            return None
    return taken


def _amount(requested: Quantity | None, capacity: DeviceCapacity, rules: CapacityRules) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_into(requested, policy.valid_range, rules)
    return next((value for value in policy.valid_values if requested.nano <= value.nano), requested)


def _units(quantity: Quantity, unit: int) -> int:
    """The amount as Go's ``Value()`` or ``MilliValue()``: rounded away from zero."""
    whole, rest = divmod(abs(quantity.nano), unit)
    return (whole + bool(rest)) * (1 if quantity.nano >= 0 else -1)


def _unit(range_: CapacityRequestPolicyRange, rules: CapacityRules) -> int:
    """The unit, in nano, in which a range is rounded: thousandths if all its quantities are multiples of one."""
    if not rules.milli:
        return NANO
    quantities = [q for q in (range_.min, range_.max, range_.step) if q is not None]
    if not all(_is_milli(quantity) for quantity in quantities):
        return NANO
    return NANO if range_.step is not None and range_.step.nano < _MILLI else _MILLI


def _is_milli(quantity: Quantity) -> bool:
    return quantity.nano % _MILLI == 0 and abs(quantity.nano) // _MILLI <= _MAX_INT64


def _rounded_into(requested: Quantity, range_: CapacityRequestPolicyRange, rules: CapacityRules) -> Quantity:
    """The smallest ``min + k × step`` that covers the request. Raises ``CapacityError`` if int64 cannot hold it."""
    assert range_.min is not None
    if requested.nano < range_.min.nano:
        return range_.min
    unit = _unit(range_, rules)
    if range_.step is None or not (step := _units(range_.step, unit)):
        return requested
    milli = unit == _MILLI
    if rules.errors:
        if milli and not _is_milli(requested):
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} is not a representable milli value")
        if not milli and requested.nano > _MAX_INT64 * NANO:
            raise CapacityError(f"{_NOT_REPRESENTABLE}: request {requested} exceeds MaxInt64")
    low = _units(range_.min, unit)
    steps = -((low - _units(requested, unit)) // step)
    total = low + step * steps
    if rules.errors and total > _MAX_INT64:
        limit = "the milli-value range" if milli else "MaxInt64"
        raise CapacityError(f"{_NOT_REPRESENTABLE}: rounding request {requested} up to the next step passes {limit}")
    if not rules.errors and not milli:
        return Quantity.binary(total)
    if milli and total % 1000:
        return Quantity(total, -3, True, range_.step.format)
    return Quantity(total // 1000 if milli else total, 0, True, range_.step.format)


_NOT_REPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None, rules: CapacityRules) -> bool:
    if policy is None or (policy.default is not None and amount.nano == policy.default.nano):
        return False
    range_ = policy.valid_range
    if range_ is not None:
        if range_.max is not None and amount.nano > range_.max.nano:
            return True
        unit = _unit(range_, rules)
        if range_.step is None or range_.min is None or not (step := _units(range_.step, unit)):
            return False
        if unit == _MILLI and not _is_milli(amount):
            return True
        return (_units(amount, unit) - _units(range_.min, unit)) % step != 0
    return bool(policy.valid_values) and all(amount.nano != value.nano for value in policy.valid_values)
