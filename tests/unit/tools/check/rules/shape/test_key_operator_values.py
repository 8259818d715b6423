"""S104: selectors of key, operator and values, and their conversion to CEL."""

from __future__ import annotations

import pytest

from allotment.cel.selector import compile_selector
from allotment.model.features import Features
from allotment.tools.check.rules.shape import key_operator_values, unknown_field
from allotment.tools.check.selectors.cel_conversion import to_cel
from tests.unit.tools.check.rules.shape.rule_results import claim, fixed_documents, matches_of

RULE = key_operator_values.RULE
GPU = 'device.attributes["gpu.nvidia.com"]'
SIZE = 'device.capacity["gpu.nvidia.com"]'


def request(selector: str, device_class: str = "gpu.nvidia.com") -> str:
    return claim(f"- name: gpu\n  exactly:\n    deviceClassName: {device_class}\n    selectors: [{selector}]")


@pytest.mark.parametrize(
    ("key", "operator", "values", "expression"),
    [
        ("memory", "Gt", ["16000"], f'{SIZE}.memory.isGreaterThan(quantity("16000Mi"))'),
        ("memory", "Gt", ["40"], f'{SIZE}.memory.isGreaterThan(quantity("40Gi"))'),
        ("memory", "Gte", ["40Gi"], f'{SIZE}.memory.compareTo(quantity("40Gi")) >= 0'),
        ("memory", "Lt", ["17179869184"], f'{SIZE}.memory.isLessThan(quantity("17179869184"))'),
        ("architecture", "In", ["Ampere"], f'{GPU}.architecture == "Ampere"'),
        ("gpu.nvidia.com/architecture", "In", ["Ampere", "Ada"], f'{GPU}.architecture in ["Ampere", "Ada"]'),
        ("architecture", "NotIn", ["Ampere", "Ada"], f'!({GPU}.architecture in ["Ampere", "Ada"])'),
        ("architecture", "NotIn", ["Ampere"], f'{GPU}.architecture != "Ampere"'),
        ("profile", "Exists", [], f'"profile" in {GPU}'),
        ("profile", "DoesNotExist", [], f'!("profile" in {GPU})'),
        ("cudaComputeCapability", "Gte", ["8.0"], f'{GPU}.cudaComputeCapability.compareTo(semver("8.0.0")) >= 0'),
    ],
)
def test_conversion_to_cel(key: str, operator: str, values: list[str], expression: str) -> None:
    conversion = to_cel(key, operator, values, "gpu.nvidia.com")
    assert conversion is not None
    assert conversion.expression == expression
    assert conversion.assumptions
    compile_selector(expression, Features("1.36"))


@pytest.mark.parametrize(
    ("key", "operator", "values"),
    [
        ("memory", "Gt", []),
        ("memory", "Gt", ["1", "2"]),
        ("memory", "Gt", ["lots"]),
        ("memory", "Near", ["1"]),
        ("architecture", "Gt", ["Ampere"]),
        ("9 lives", "Exists", []),
    ],
)
def test_selectors_that_cannot_be_converted(key: str, operator: str, values: list[str]) -> None:
    assert to_cel(key, operator, values, "gpu.nvidia.com") is None


def test_fix_is_unsafe_and_states_its_assumption() -> None:
    text = request('{key: memory, operator: Gt, values: ["16000"]}')
    (match,) = matches_of(RULE, text)
    assert matches_of(unknown_field.RULE, text) == []
    assert match.fix is not None
    assert not match.fix.safe
    assert match.fix.text == "select with CEL (16000 is read as 16000Mi because no unit is given)"
    assert fixed_documents(RULE, text)[0]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] == [
        {"cel": {"expression": f'{SIZE}.memory.isGreaterThan(quantity("16000Mi"))'}}
    ]


def test_driver_from_a_class_of_the_files() -> None:
    device_class = """\
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mine}
spec:
  selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]
"""
    selector = "{key: architecture, operator: In, values: [Ampere]}"
    (match,) = matches_of(RULE, request(selector, "mine") + device_class)
    assert match.fix is not None
    (without,) = matches_of(RULE, request(selector, "mine"))
    assert without.fix is None
    assert without.help.startswith("write cel:")
