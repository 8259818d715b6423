"""A missing class: Kubernetes reads all classes of a pod before it evaluates nodes."""

from __future__ import annotations

import pytest

from allotment.engine.diagnosis.diagnoser import diagnose
from allotment.model.resource import DeviceRequest, DeviceSubRequest, ResourceClaim
from tests.unit.engine.objects import claim, device, inventory, request, slice_of

GONE = request(class_name="gone", name="s")
OPTIONAL = DeviceRequest(
    name="r",
    first_available=tuple(
        DeviceSubRequest(name=name, device_class_name=name, allocation_mode="ExactCount", count=1)
        for name in ("gpu", "gone")
    ),
)


@pytest.mark.parametrize(
    ("broken", "claims"),
    [
        pytest.param(True, (claim(request(0), GONE),), id="after all devices of a broken pool"),
        pytest.param(False, (claim(request(9)), claim(GONE, name="d")), id="in a later claim"),
        pytest.param(False, (claim(OPTIONAL),), id="as an unused alternative"),
        pytest.param(True, (claim(OPTIONAL),), id="as one of several alternatives that fail"),
    ],
)
def test_a_missing_class_takes_precedence(broken: bool, claims: tuple[ResourceClaim, ...]) -> None:
    slice_ = slice_of(device("d"), node="n1", count=2 if broken else 1)
    headline = diagnose(inventory(slice_), claims).headline
    assert headline.code == "class-missing"
    assert headline.summary.startswith('DeviceClass "gone" does not exist.')
