from __future__ import annotations

import pytest

from allotment.cel import DeviceInput, EvaluationError, compile_selector, content_key
from allotment.cel.device import split_qualified_name, value_key
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity
from tests.unit.cel.evaluating import DEVICE, outcome

FEATURES = Features(kube="1.36")


def matches(expression: str, device: DeviceInput, **gates: bool) -> bool:
    return compile_selector(expression, Features(kube="1.36", gates=gates)).matches(device)


def test_qualified_names_split_at_the_first_slash_and_default_to_the_driver_domain() -> None:
    assert split_qualified_name("model", "d") == ("d", "model")
    assert split_qualified_name("a.b/c/d", "d") == ("a.b", "c/d")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.attributes["nope"]', {}),
        ("device.attributes.nope", {}),
        ("device.attributes[dyn(1)]", {}),
        ('device.attributes[?"nope"].hasValue()', True),
        ("has(device.attributes.nope)", True),
        ('"nope" in device.attributes', False),
        ('"gpu.example.com" in device.attributes', True),
        ("device.attributes.size()", 2),
        ('device.attributes["other.example.com"].numa', 1),
        ('device.attributes["gpu.example.com"].nope', "error: no such key: nope"),
        ('device.attributes["gpu.example.com"].?nope.orValue(5)', 5),
        (
            'device.attributes["gpu.example.com"]["other.example.com/numa"]',
            "error: no such key: other.example.com/numa",
        ),
        ('device.attributes["gpu.example.com"].index.foo', "error: no such key: foo"),
        ('has(device.attributes["gpu.example.com"].index.foo)', False),
        ('device.attributes["gpu.example.com"].index.?foo.hasValue()', False),
        ('device.attributes["gpu.example.com"].modes[1]', "b"),
        ('device.attributes["gpu.example.com"].modes[2]', "error: index out of bounds: 2"),
        ('device.attributes["gpu.example.com"].modes.foo', "error: unsupported index type 'string' in list"),
        ('dyn(device)["driver"]', "gpu.example.com"),
        ("type(device) == map", True),
        ("device.allowMultipleAllocations", False),
        ('device.attributes["gpu.example.com"].map(k, k)', ["firmware", "healthy", "index", "model", "modes"]),
    ],
)
def test_device_variable(expression: str, expected: object) -> None:
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    ("attribute", "error"),
    [
        (DeviceAttribute(), "attribute bad: unsupported attribute value"),
        (DeviceAttribute(ints=(1,)), "attribute bad: unsupported attribute value"),
        (DeviceAttribute(version="1.2"), "attribute bad: parse semantic version: No Major.Minor.Patch elements found"),
    ],
)
def test_an_invalid_attribute_fails_every_expression(attribute: DeviceAttribute, error: str) -> None:
    device = DeviceInput("d", Device(attributes={"good": DeviceAttribute(int_=1), "bad": attribute}))
    for expression in ("true", 'device.attributes["d"].good == 1'):
        with pytest.raises(EvaluationError) as failed:
            matches(expression, device)
        assert str(failed.value) == error


def test_list_attributes_require_the_feature_gate() -> None:
    device = DeviceInput("d", Device(attributes={"x": DeviceAttribute(ints=(1, 2))}))
    assert matches('2 in device.attributes["d"].x', device, DRAListTypeAttributes=True)
    with pytest.raises(EvaluationError, match="unsupported attribute value"):
        matches("true", device)


def test_value_keys_distinguish_values_that_expressions_distinguish() -> None:
    assert value_key(1) != value_key(True)
    assert value_key(Quantity.parse("1")) != value_key(Quantity.parse("1000m"))
    assert value_key(Quantity.parse("1Gi")) == value_key(Quantity.parse("1Gi"))


def test_content_keys_are_equal_for_equal_content() -> None:
    device = Device(name="a", capacity={"m": DeviceCapacity(value=Quantity.parse("1Gi"))})
    same = Device(name="b", capacity={"m": DeviceCapacity(value=Quantity.parse("1Gi"))})
    other = Device(name="a", attributes={"m": DeviceAttribute(bool_=True)})
    assert content_key("d", device) == content_key("d", same) != content_key("d", other)
    assert content_key("d", device) != content_key("e", device)


def test_devices_are_converted_once() -> None:
    assert DEVICE.variable(True) is DEVICE.variable(True)
    assert DEVICE.variable(True) is not DEVICE.variable(False)
