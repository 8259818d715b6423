"""Derived attributes: the types that expressions may have, and the attributes that their values become."""

from __future__ import annotations

import pytest

from allotment.cel import CompileError, DeviceInput, EvaluationError, compile_derived_attribute
from allotment.model.features import Features
from allotment.model.resource import Device, DeviceAttribute

FEATURES = Features("1.37")
DEVICE = DeviceInput(
    "a.io",
    Device(
        name="d",
        attributes={
            "numa": DeviceAttribute(int_=3),
            "driverVersion": DeviceAttribute(version="1.2.3+build"),
            "links": DeviceAttribute(strings=("l0", "l1")),
        },
    ),
)


@pytest.mark.parametrize(
    ("expression", "attribute"),
    [
        ("true", DeviceAttribute(bool_=True)),
        ('device.attributes["a.io"].numa + 1', DeviceAttribute(int_=4)),
        ('device.driver + "/x"', DeviceAttribute(string="a.io/x")),
        ('device.attributes["a.io"].driverVersion', DeviceAttribute(version="1.2.3+build")),
        ('device.attributes["a.io"].links', DeviceAttribute(strings=("l0", "l1"))),
        ("[true, false]", DeviceAttribute(bools=(True, False))),
        ("[1, 2]", DeviceAttribute(ints=(1, 2))),
        ('[semver("1.2.3")]', DeviceAttribute(versions=("1.2.3",))),
        ("[]", DeviceAttribute(strings=())),
        # Go's Value() unwraps optionals, and a type is its name.
        ('dyn(device.attributes["a.io"].?numa)', DeviceAttribute(int_=3)),
        ("dyn(type(1))", DeviceAttribute(string="int")),
    ],
)
def test_values(expression: str, attribute: DeviceAttribute) -> None:
    assert compile_derived_attribute(expression, FEATURES).evaluate(DEVICE) == attribute


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ('device.attributes["a.io"].model', "no such key: model"),
        ("dyn(1.5)", "unsupported CEL return type: float64"),
        ('dyn(device.attributes["a.io"].?model)', "unsupported CEL return type: <nil>"),
        ("[dyn(1u)]", "unsupported list element type: uint64"),
        ("[dyn(1), dyn(true)]", "expected list element at index 1 to be int, got bool"),
        ('[dyn("a"), dyn(2)]', "expected list element at index 1 to be string, got int64"),
    ],
)
def test_values_that_no_attribute_can_hold(expression: str, error: str) -> None:
    with pytest.raises(EvaluationError, match=f"^{error}$"):
        compile_derived_attribute(expression, FEATURES).evaluate(DEVICE)


def test_a_device_with_an_invalid_attribute_fails_every_expression() -> None:
    device = DeviceInput("a.io", Device(attributes={"x": DeviceAttribute()}))
    with pytest.raises(EvaluationError, match="attribute x: unsupported attribute value"):
        compile_derived_attribute("1", FEATURES).evaluate(device)


@pytest.mark.parametrize(
    ("expression", "found"), [("1.5", "double"), ("{1: 2}", "map(int, int)"), ("[1u]", "list(uint)")]
)
def test_types_that_are_refused(expression: str, found: str) -> None:
    with pytest.raises(CompileError) as raised:
        compile_derived_attribute(expression, FEATURES)
    scalars = "must evaluate to a primitive scalar (string, integer, boolean, semver)"
    assert str(raised.value) == f"{scalars} or a list of these scalars, not {found}"


def test_new_lists_require_list_attributes() -> None:
    with pytest.raises(CompileError) as raised:
        compile_derived_attribute("[1]", FEATURES, env="new")
    assert str(raised.value) == "must evaluate to a primitive scalar (string, integer, boolean, semver), not list(int)"
    lists = Features("1.37", {"DRAListTypeAttributes": True})
    assert compile_derived_attribute("[1]", lists, env="new").evaluate(DEVICE).ints == (1,)
