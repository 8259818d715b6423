"""Consumable capacity (KEP-5075): the amount of a device that an allocation consumes, and whether it is allowed.

Every allocation of a shareable device consumes some of *each* capacity: the requested amount, rounded by the capacity's
policy; without a request, the policy's default; without a default, all of it. For a device that cannot be shared, the
same comparison is only a filter.
"""

from __future__ import annotations

from collections.abc import Mapping

from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

NANO = 10**9


def consumption(
    device: Device, requests: Mapping[str, Quantity] | None, milli: bool = False
) -> dict[str, Quantity] | None:
    """The amount of each capacity that an allocation consumes, or ``None`` if the device can never meet the request.

    Names must be those that the device uses: ``memory`` is not ``gpu.example.com/memory``. ``milli`` rounds ranges in
    thousandths (DRAFractionalCapacityRange, 1.37) instead of whole units. A negative amount, which validation accepts
    and 1.36 would add to the free capacity, is always refused.
    """
    if requests and any(name not in device.capacity for name in requests):
        return None
    taken: dict[str, Quantity] = {}
    for name, capacity in device.capacity.items():
        amount = _amount(requests.get(name) if requests else None, capacity, milli)
        if not 0 <= amount.nano <= capacity.value.nano or _violates(amount, capacity.request_policy, milli):
            return None
        taken[name] = amount
    return taken


def _amount(requested: Quantity | None, capacity: DeviceCapacity, milli: bool) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_into(requested, policy.valid_range, milli)
    return next((value for value in policy.valid_values if requested.nano <= value.nano), requested)


def _units(quantity: Quantity, milli: bool) -> int:
    """The amount as Go's ``Value()`` or ``MilliValue()``: rounded away from zero."""
    unit = NANO // 1000 if milli else NANO
    whole, rest = divmod(abs(quantity.nano), unit)
    return (whole + bool(rest)) * (1 if quantity.nano >= 0 else -1)


def _rounded_into(requested: Quantity, range_: CapacityRequestPolicyRange, milli: bool) -> Quantity:
    """The smallest ``min + k × step`` that covers the request."""
    assert range_.min is not None
    if requested.nano < range_.min.nano:
        return range_.min
    if range_.step is None or not (step := _units(range_.step, milli)):
        return requested
    low = _units(range_.min, milli)
    steps = -((low - _units(requested, milli)) // step)
    total = low + step * steps
    if not milli:
        return Quantity.binary(total)
    if total % 1000:
        return Quantity(total, -3, True, range_.step.format)
    return Quantity(total // 1000, 0, True, range_.step.format)


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None, milli: bool) -> bool:
    if policy is None or (policy.default is not None and amount.nano == policy.default.nano):
        return False
    range_ = policy.valid_range
    if range_ is not None:
        if range_.max is not None and amount.nano > range_.max.nano:
            return True
        if range_.step is None or range_.min is None or not (step := _units(range_.step, milli)):
            return False
        return (_units(amount, milli) - _units(range_.min, milli)) % step != 0
    return bool(policy.valid_values) and all(amount.nano != value.nano for value in policy.valid_values)
