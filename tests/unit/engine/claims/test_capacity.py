"""Consumed capacity of an allocation: rounding and rejection by policies, and release differences."""

from __future__ import annotations

import pytest

from allotment.engine.claims.capacity import CapacityError, CapacityRules, consumption
from allotment.model.quantity import Quantity
from allotment.model.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Device, DeviceCapacity

Q = Quantity.parse
#: Until 1.36.
WHOLE = CapacityRules()
#: 1.37 with DRAFractionalCapacityRange.
FRACTIONAL = CapacityRules(milli=True, errors=True)


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
    policy: CapacityRequestPolicy | None, requested: str | None, value: str = "10Gi", rules: CapacityRules = WHOLE
) -> object:
    device = Device(capacity={"memory": DeviceCapacity(value=Q(value), request_policy=policy)})
    found = consumption(device, {"memory": Q(requested)} if requested is not None else None, rules)
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
    assert taken(policy, "300m", value="1", rules=FRACTIONAL) == "500m"
    assert taken(policy, "800m", value="1", rules=FRACTIONAL) == "1"


def test_ranges_finer_than_thousandths_are_rounded_in_whole_units() -> None:
    assert taken(range_("1", "1", step="500u"), "1500m", value="9", rules=FRACTIONAL) == "2"
    assert taken(range_("1", "1", "8500u", "1"), "1500m", value="9", rules=FRACTIONAL) is None


@pytest.mark.parametrize(
    ("milli", "policy", "requested", "error"),
    [
        (False, range_("1", "1", step="1"), "9223372036854775808", "request 9223372036854775808 exceeds MaxInt64"),
        (
            False,
            range_("2", "2", step="2"),
            "9223372036854775807",
            "rounding request 9223372036854775807 up to the next step passes MaxInt64",
        ),
        (True, range_("250m", "250m", step="250m"), "300100u", "request 300100u is not a representable milli value"),
        (
            True,
            range_("250m", "250m", step="250m"),
            "9223372036854775800m",
            "rounding request 9223372036854775800m up to the next step passes the milli-value range",
        ),
        # The gate selects thousandths for whole numbers, too.
        (
            True,
            range_("1", "1", step="1"),
            "9223372036854775807",
            "request 9223372036854775807 is not a representable milli value",
        ),
    ],
)
def test_a_request_that_int64_cannot_represent_is_an_error(
    milli: bool, policy: CapacityRequestPolicy, requested: str, error: str
) -> None:
    with pytest.raises(CapacityError) as raised:
        taken(policy, requested, rules=CapacityRules(milli, errors=True))
    why = "capacity request cannot be represented in the device's range arithmetic"
    assert str(raised.value) == f'capacity "memory": {why}: {error}'


def test_a_negative_amount_is_an_error_from_1_37() -> None:
    with pytest.raises(CapacityError, match='capacity "memory": capacity value is negative'):
        taken(None, "-1", rules=CapacityRules(errors=True))
    assert taken(None, "-1") is None


def test_all_amounts_are_computed_before_any_is_compared() -> None:
    small = DeviceCapacity(value=Q("1"))
    device = Device(capacity={"cores": small, "memory": small})
    with pytest.raises(CapacityError):
        consumption(device, {"cores": Q("2"), "memory": Q("-1")}, CapacityRules(errors=True))


def test_capacity_names_must_equal_those_of_the_device() -> None:
    device = Device(capacity={"memory": DeviceCapacity(value=Q("10Gi"))})
    assert consumption(device, {"gpu.example.com/memory": Q("1Gi")}) is None


def test_every_capacity_is_consumed_although_one_is_requested() -> None:
    device = Device(capacity={"memory": DeviceCapacity(value=Q("10Gi")), "cores": DeviceCapacity(value=Q("8"))})
    found = consumption(device, {"memory": Q("1Gi")})
    assert found == {"memory": Q("1Gi"), "cores": Q("8")}
