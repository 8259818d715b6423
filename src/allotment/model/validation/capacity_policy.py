"""Request policies of shareable capacities (KEP-5075), whose ranges can have fractions from 1.37 on (KEP-6000)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from allotment.model.validation.context import ValidationContext
from allotment.model.validation.errors import Errors, forbidden, invalid, required
from allotment.model.validation.lists import check_set
from allotment.model.validation.release import release

VALID_VALUES_MAX = 10
_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6
_INT64_MAX: Final = 2**63 - 1


def exclusive_capacity(capacity: DeviceCapacity, path: str, _: ValidationContext) -> Errors:
    """Validate a capacity of a device that is allocated as a whole."""
    if capacity.request_policy is not None:
        yield forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")


def shareable_capacity(capacity: DeviceCapacity, path: str, context: ValidationContext) -> Errors:
    """Validate a capacity of a device that several requests share; without a policy any amount can be requested."""
    policy = capacity.request_policy
    if policy is None:
        return
    path = f"{path}.requestPolicy"
    if policy.valid_values and policy.valid_range is not None:
        yield forbidden(
            path, 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        )
        return
    yield from _policy(policy, capacity.value, path, context)


def _policy(policy: CapacityRequestPolicy, total: Quantity, path: str, context: ValidationContext) -> Errors:
    if policy.valid_values:
        if policy.default is None:
            yield required(f"{path}.default", "required when validValues is defined")
        else:
            yield from _valid_values(policy.valid_values, policy.default, total, f"{path}.validValues", context)
    elif policy.valid_range is not None:
        if policy.default is None:
            yield required(f"{path}.default", "required when validRange is defined")
        else:
            yield from _valid_range(policy.valid_range, policy.default, total, f"{path}.validRange", context)


def _valid_values(
    values: Sequence[Quantity], default: Quantity, total: Quantity, path: str, context: ValidationContext
) -> Errors:
    for index, (lower, upper) in enumerate(pairwise(values), 1):
        if lower > upper:
            yield invalid(f"{path}[{index}]", str(upper), "values must be sorted in ascending order")

    def option(value: Quantity, item_path: str) -> Errors:
        if value > total:
            yield invalid(item_path, str(value), f"option is larger than capacity value: {total}")

    fractional = context.features.enabled("DRAFractionalCapacityRange")
    yield from check_set(values, VALID_VALUES_MAX, option, _decimal if fractional else _whole, path)
    # Options beyond the limit are ignored, so the default is not among them.
    if len(values) > VALID_VALUES_MAX or default not in values:
        yield invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _whole(value: Quantity) -> str:
    return str(value.value())


def _decimal(value: Quantity) -> str:
    """All digits of a quantity as written: ``1`` and ``1000m`` differ."""
    if value.scale >= 0:
        return str(value.mantissa * 10**value.scale)
    digits = str(abs(value.mantissa)).zfill(1 - value.scale)
    return f"{'-' if value.mantissa < 0 else ''}{digits[: value.scale]}.{digits[value.scale :]}"


def _valid_range(
    valid: CapacityRequestPolicyRange, default: Quantity, total: Quantity, path: str, context: ValidationContext
) -> Errors:
    minimum, maximum, step = valid.min, valid.max, valid.step
    if minimum is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    yield from _bounds(valid, minimum, default, total, path, named=release(context.features).default_has_path)
    amounts = {"default": default, "min": minimum, "max": maximum, "step": step}
    milli = context.features.enabled("DRAFractionalCapacityRange") and any(
        amount is not None and amount.nano % _NANO for amount in amounts.values()
    )
    if milli:
        unsafe = [
            invalid(f"{path}.{name}", str(amount), "value cannot be represented as a milli value")
            for name, amount in _given(amounts)
            if amount.nano % _NANO_PER_MILLI or abs(amount.nano) // _NANO_PER_MILLI > _INT64_MAX
        ]
        yield from unsafe
        if unsafe:
            return
    if step is None:
        return
    safe = release(context.features).ranges_are_safe
    # Until 1.36 the API server divides by zero here and responds with 500; it gets the message of later releases.
    if step.sign() <= 0 if safe else step.value() == 0:
        yield invalid(f"{path}.step", str(step), "must be greater than zero")
        return
    one_step = minimum.add(step)
    if one_step > total:
        yield invalid(f"{path}.step", str(step), f"one step {one_step} is larger than capacity value: {total}")
    if safe and not milli:
        unsafe = [error for name, amount in _given(amounts) for error in _int64(amount, f"{path}.{name}")]
        yield from unsafe
        if unsafe:
            return
    yield from _on_step(default, minimum, step, f"{path}.step", milli=milli)
    if maximum is not None:
        yield from _on_step(maximum, minimum, step, f"{path}.step", milli=milli)


def _bounds(
    valid: CapacityRequestPolicyRange, minimum: Quantity, default: Quantity, total: Quantity, path: str, *, named: bool
) -> Errors:
    """Validate the order of the amounts. ``named``: whether the default has a path of its own."""
    maximum = valid.max
    if minimum > total:
        yield invalid(f"{path}.min", str(minimum), f"min is larger than capacity value: {total}")
    if default < minimum:
        yield invalid(f"{path}.{'default' if named else 'min'}", str(default), f"default is less than min: {minimum}")
    if maximum is None:
        return
    if minimum > maximum:
        yield invalid(f"{path}.max", str(minimum), f"min is larger than max: {maximum}")
    if maximum > total:
        yield invalid(f"{path}.max", str(maximum), f"max is larger than capacity value: {total}")
    if default > maximum:
        yield invalid(f"{path}.{'default' if named else 'max'}", str(default), f"default is more than max: {maximum}")


def _given(amounts: dict[str, Quantity | None]) -> Iterator[tuple[str, Quantity]]:
    return ((name, amount) for name, amount in amounts.items() if amount is not None)


def _int64(value: Quantity, path: str) -> Errors:
    if value.sign() < 0:
        yield invalid(path, str(value), "must be greater than or equal to 0")
    elif value.nano > _INT64_MAX * _NANO:
        yield invalid(path, str(value), f"must not be larger than {_INT64_MAX}")


def _on_step(value: Quantity, minimum: Quantity, step: Quantity, path: str, *, milli: bool) -> Errors:
    """Check a value against the step, in thousandths or in whole units that are rounded up."""
    number, start, width = (
        amount.nano // _NANO_PER_MILLI if milli else amount.value() for amount in (value, minimum, step)
    )
    if (number - start) % width:
        yield invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({minimum})")
