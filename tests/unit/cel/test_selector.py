from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel import CompileError, DeviceInput, EvaluationError, compile_selector
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import Device, DeviceAttribute, DeviceCapacity
from tests.unit.cel.evaluating import DEVICE, DRIVER

FEATURES = Features(kube="1.36", gates={"DRAListTypeAttributes": True})


def test_selectors_are_cached_by_text_and_environment() -> None:
    assert compile_selector("true", FEATURES) is compile_selector("true", FEATURES)
    assert compile_selector("true", FEATURES) is not compile_selector("true", FEATURES, env="new")


def test_errors_have_their_kind() -> None:
    with pytest.raises(CompileError) as invalid:
        compile_selector("device.nope", FEATURES)
    assert invalid.value.kind == "invalid"
    with pytest.raises(CompileError) as internal:
        compile_selector('int("x") == 1', FEATURES)
    assert internal.value.kind == "internal"
    with pytest.raises(CompileError, match="must evaluate to bool or the unknown type, not int"):
        compile_selector("1", FEATURES)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("dyn(1)", "int could not be converted to bool: unsupported type conversion from 'int' to bool"),
        ("dyn(1u)", "uint could not be converted to bool: unsupported type conversion from 'uint' to bool"),
        ("dyn(1.5)", "double could not be converted to bool: type conversion error from Double to 'bool'"),
        ('dyn("x")', "string could not be converted to bool: unsupported native conversion from string to 'bool'"),
        ("dyn([])", "list could not be converted to bool: type conversion error from list to 'bool'"),
        ("dyn(null)", "null_type could not be converted to bool: type conversion error from 'null_type' to 'bool'"),
        ("dyn(int)", "type could not be converted to bool: type conversion not supported for 'type'"),
        (
            'dyn(quantity("1"))',
            "kubernetes.Quantity could not be converted to bool: type conversion error from 'Quantity' to 'bool'",
        ),
        ("dyn(optional.none())", "optional_type could not be converted to bool: optional.none() dereference"),
        ('dyn(ip("::1"))', "net.IP could not be converted to bool: type conversion error from 'IP' to 'bool'"),
    ],
)
def test_non_bool_results_are_errors(expression: str, text: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        compile_selector(expression, FEATURES).matches(DEVICE)
    assert str(failed.value) == f"CEL result of type {text}"


def test_an_optional_bool_is_unwrapped() -> None:
    assert compile_selector("dyn(optional.of(true))", FEATURES).matches(DEVICE)


def test_exceeding_the_cost_limit_is_an_error() -> None:
    selector = compile_selector("lists.range(900000).all(x, x >= 0)", FEATURES)
    with pytest.raises(EvaluationError, match="operation cancelled: actual cost limit exceeded"):
        selector.matches(DEVICE)
    assert selector.cost(DEVICE) == 1_000_001


def device(index: int, model: str, memory: str) -> Device:
    return Device(
        name=f"gpu-{index}",
        attributes={"model": DeviceAttribute(string=model), "index": DeviceAttribute(int_=index)},
        capacity={"memory": DeviceCapacity(value=Quantity.parse(memory))},
    )


def test_projection_keys_depend_only_on_the_values_read() -> None:
    selector = compile_selector('device.attributes["d"].model == "A"', FEATURES)
    a, b, c = (DeviceInput("d", device(i, m, "1Gi")) for i, m in enumerate("AAB"))
    assert selector.projection_key(a) == selector.projection_key(b) != selector.projection_key(c)
    whole = compile_selector("dyn(device).driver == 'd'", FEATURES)
    assert whole.projection_key(a) != whole.projection_key(b)


def test_projection_keys_distinguish_values_that_are_equal_in_python() -> None:
    selector = compile_selector('device.attributes["d"].x == 1 && device.capacity["d"].y.isInteger()', FEATURES)
    values = [DeviceAttribute(int_=1), DeviceAttribute(bool_=True), DeviceAttribute(string="1")]
    quantities = [Quantity.parse("1"), Quantity.parse("1000m")]
    inputs = [
        DeviceInput("d", Device(attributes={"x": v}, capacity={"y": DeviceCapacity(value=q)}))
        for v in values
        for q in quantities
    ]
    assert len({selector.projection_key(i) for i in inputs}) == len(inputs)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from("ABC"), st.sampled_from(["1Gi", "1024Mi", "2Gi"])), max_size=12
    )
)
def test_match_all_agrees_with_matches(described: list[tuple[int, str, str]]) -> None:
    selector = compile_selector(
        'device.attributes["d"].model != "B" && device.capacity["d"].memory.compareTo(quantity("1Gi")) > 0'
        ' || device.attributes["d"].index / (device.attributes["d"].index - 1) > 1',
        FEATURES,
    )
    inputs = [DeviceInput("d", device(*d)) for d in described]
    inputs += inputs[:3]

    def single(device_input: DeviceInput) -> bool | str:
        try:
            return selector.matches(device_input)
        except EvaluationError as error:
            return str(error)

    found = [result if isinstance(result, bool) else str(result) for result in selector.match_all(inputs)]
    assert found == [single(i) for i in inputs]


def test_match_all_reports_invalid_attributes_per_device() -> None:
    good = DeviceInput(DRIVER, Device(attributes={"x": DeviceAttribute(int_=1)}))
    bad = DeviceInput(DRIVER, Device(attributes={"x": DeviceAttribute()}))
    first, second = compile_selector("true", FEATURES).match_all([good, bad])
    assert first is True
    assert str(second) == "attribute x: unsupported attribute value"
