"""How much of a shareable capacity a request may take (KEP-5075): the policy must be consistent in itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from allotment.model.validation.errors import Errors, forbidden, invalid, required
from allotment.model.validation.lists import check_set

VALID_VALUES_MAX = 10


def exclusive_capacity(capacity: DeviceCapacity, path: str) -> Errors:
    """A capacity of a device that one request takes whole."""
    if capacity.request_policy is not None:
        yield forbidden(f"{path}.requestPolicy", "allowMultipleAllocations must be true")


def shareable_capacity(capacity: DeviceCapacity, path: str) -> Errors:
    """A capacity of a device that several requests share; without a policy any amount may be asked for."""
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

    def option(value: Quantity, at: str) -> Errors:
        if value > total:
            yield invalid(at, str(value), f"option is larger than capacity value: {total}")

    yield from check_set(values, VALID_VALUES_MAX, option, lambda value: str(value.value()), path)
    # Options beyond the limit are not looked at, so none of them is the default.
    if len(values) > VALID_VALUES_MAX or default not in values:
        yield invalid(path, str(default), "default value is not valid according to the requestPolicy")


def _valid_range(valid: CapacityRequestPolicyRange, default: Quantity, total: Quantity, path: str) -> Errors:
    lowest, highest, step = valid.min, valid.max, valid.step
    if lowest is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    if lowest > total:
        yield invalid(f"{path}.min", str(lowest), f"min is larger than capacity value: {total}")
    if default < lowest:
        yield invalid(f"{path}.min", str(default), f"default is less than min: {lowest}")
    if highest is not None:
        if lowest > highest:
            yield invalid(f"{path}.max", str(lowest), f"min is larger than max: {highest}")
        if highest > total:
            yield invalid(f"{path}.max", str(highest), f"max is larger than capacity value: {total}")
        if default > highest:
            yield invalid(f"{path}.max", str(default), f"default is more than max: {highest}")
    if step is not None:
        one_step = lowest.add(step)
        if one_step > total:
            yield invalid(f"{path}.step", str(step), f"one step {one_step} is larger than capacity value: {total}")
        yield from _on_step(default, lowest, step, f"{path}.step")
        if highest is not None:
            yield from _on_step(highest, lowest, step, f"{path}.step")


def _on_step(value: Quantity, lowest: Quantity, step: Quantity, path: str) -> Errors:
    """Counted in whole units, as 1.36 does (1.37 counts in thousandths)."""
    width = step.value()
    # 1.36 divides by zero here and answers 500; later releases refuse the step with these words.
    if width == 0:
        yield invalid(path, str(step), "must be greater than zero")
    elif (value.value() - lowest.value()) % width:
        yield invalid(path, str(value), f"value is not a multiple of a given step ({step}) from ({lowest})")
