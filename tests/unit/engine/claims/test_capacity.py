"""Consumed capacity of an allocation: rounding and rejection by policies, and release differences."""

from __future__ import annotations

import pytest

from allotment.engine.claims.capacity import consumption
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

Q = Quantity.parse


def values(default: str, *valid: str) -> CapacityRequestPolicy:
    return CapacityRequestPolicy(default=Q(default), valid_values=tuple(map(Q, valid)))


def range_(default: str, low: str, high: str = "", step: str = "") -> CapacityRequestPolicy:
    return CapacityRequestPolicy(
        default=Q(default),
        valid_range=CapacityRequestPolicyRange(
            min=Q(low), max=Q(high) if high else None, step=Q(step) if step else None
        ),
    )


def taken(
    policy: CapacityRequestPolicy | None, requested: str | None, value: str = "10Gi", milli: bool = False
) -> object:
    device = Device(capacity={"memory": DeviceCapacity(value=Q(value), request_policy=policy)})
    found = consumption(device, {"memory": Q(requested)} if requested is not None else None, milli)
    return None if found is None else str(found["memory"])


@pytest.mark.parametrize(
    ("policy", "requested", "expected"),
    [
        (None, None, "10Gi"),
        (None, "3Gi", "3Gi"),
        (None, "0", "0"),
        (None, "11Gi", None),
        (None, "-1", None),
        (values("2Gi", "2Gi", "4Gi"), None, "2Gi"),
        (values("2Gi", "2Gi", "4Gi"), "3Gi", "4Gi"),
        (values("2Gi", "2Gi", "4Gi"), "5Gi", None),
        (range_("2Gi", "2Gi", "8Gi", "2Gi"), None, "2Gi"),
        (range_("2Gi", "2Gi", "8Gi", "2Gi"), "1Gi", "2Gi"),
        (range_("2Gi", "2Gi", "8Gi", "2Gi"), "5Gi", "6Gi"),
        (range_("2Gi", "2Gi", "8Gi", "2Gi"), "9Gi", None),
        (range_("2Gi", "2Gi", "8Gi", "2Gi"), "0", "2Gi"),
        (range_("2Gi", "2Gi"), "2500Mi", "2500Mi"),
        (CapacityRequestPolicy(default=Q("1Gi")), "3Gi", "3Gi"),
    ],
)
def test_amounts(policy: CapacityRequestPolicy | None, requested: str | None, expected: str | None) -> None:
    assert taken(policy, requested) == expected


def test_steps_are_whole_units_until_1_36_and_thousandths_from_1_37() -> None:
    policy = range_("250m", "250m", step="250m")
    assert taken(policy, "100m", value="1") == "250m"
    assert taken(policy, "300m", value="1") == "1"
    assert taken(policy, "300m", value="1", milli=True) == "500m"
    assert taken(policy, "800m", value="1", milli=True) == "1"


def test_capacity_names_must_equal_those_of_the_device() -> None:
    device = Device(capacity={"memory": DeviceCapacity(value=Q("10Gi"))})
    assert consumption(device, {"gpu.example.com/memory": Q("1Gi")}) is None


def test_every_capacity_is_consumed_although_one_is_requested() -> None:
    device = Device(capacity={"memory": DeviceCapacity(value=Q("10Gi")), "cores": DeviceCapacity(value=Q("8"))})
    found = consumption(device, {"memory": Q("1Gi")})
    assert found == {"memory": Q("1Gi"), "cores": Q("8")}
