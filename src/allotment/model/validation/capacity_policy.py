"""Request policies of shareable capacities (KEP-5075)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from allotment.model.validation.errors import Errors, forbidden, invalid, required
from allotment.model.validation.lists import check_set

VALID_VALUES_MAX = 10


def exclusive_capacity(capacity: DeviceCapacity, path: str) -> Errors:
    """Validate a capacity of a device that is allocated as a whole."""
    if capacity.request_policy is not None:
        yield forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")


def shareable_capacity(capacity: DeviceCapacity, path: str) -> Errors:
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
    yield from _policy(policy, capacity.value, path)


def _policy(policy: CapacityRequestPolicy, total: Quantity, path: str) -> Errors:
    if policy.valid_values:
        if policy.default is None:
            yield required(f"{path}.default", "required when validValues is defined")
        else:
            yield from _valid_values(policy.valid_values, policy.default, total, f"{path}.validValues")
    elif policy.valid_range is not None:
        if policy.default is None:
            yield required(f"{path}.default", "required when validRange is defined")
        else:
            yield from _valid_range(policy.valid_range, policy.default, total, f"{path}.validRange")


def _valid_values(values: Sequence[Quantity], default: Quantity, total: Quantity, path: str) -> Errors:
    for index, (lower, upper) in enumerate(pairwise(values), 1):
        if lower > upper:
            yield invalid(f"{path}[{index}]", str(upper), "values must be sorted in ascending order")

    def option(value: Quantity, item_path: str) -> Errors:
        if value > total:
            yield invalid(item_path, str(value), f"option is larger than capacity value: {total}")

    yield from check_set(values, VALID_VALUES_MAX, option, lambda value: str(value.value()), path)
    # Options beyond the limit are ignored, so the default is not among them.
    if len(values) > VALID_VALUES_MAX or default not in values:
        yield invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _valid_range(valid: CapacityRequestPolicyRange, default: Quantity, total: Quantity, path: str) -> Errors:
    minimum, maximum, step = valid.min, valid.max, valid.step
    if minimum is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    if minimum > total:
        yield invalid(f"{path}.min", str(minimum), f"min is larger than capacity value: {total}")
    if default < minimum:
        yield invalid(f"{path}.min", str(default), f"default is less than min: {minimum}")
    if maximum is not None:
        if minimum > maximum:
            yield invalid(f"{path}.max", str(minimum), f"min is larger than max: {maximum}")
        if maximum > total:
            yield invalid(f"{path}.max", str(maximum), f"max is larger than capacity value: {total}")
        if default > maximum:
            yield invalid(f"{path}.max", str(default), f"default is more than max: {maximum}")
    if step is not None:
        one_step = minimum.add(step)
        if one_step > total:
            yield invalid(f"{path}.step", str(step), f"one step {one_step} is larger than capacity value: {total}")
        yield from _on_step(default, minimum, step, f"{path}.step")
        if maximum is not None:
            yield from _on_step(maximum, minimum, step, f"{path}.step")


def _on_step(value: Quantity, minimum: Quantity, step: Quantity, path: str) -> Errors:
    """Check a value against the step in whole units, as 1.36 does (1.37 uses thousandths)."""
    width = step.value()
    # 1.36 divides by zero here and responds with 500; later releases reject the step with this message.
    if width == 0:
        yield invalid(path, str(step), "must be greater than zero")
    elif (value.value() - minimum.value()) % width:
        yield invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({minimum})")
