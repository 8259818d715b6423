"""V305: driver names that no driver has."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import unknown_driver
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    claim,
    fixed_document,
    fixed_expressions,
    levels_and_messages,
    selector_messages,
)

RULE = unknown_driver.RULE

CONFIG = """\
    config:
    - opaque:
        driver: {driver}
        parameters: {{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig}}
"""


def test_resource_name_is_not_a_driver() -> None:
    assert selector_messages(RULE, 'device.driver == "nvidia.com"') == [
        ("warning", 'no driver is named "nvidia.com": the driver for NVIDIA GPUs is gpu.nvidia.com')
    ]
    assert fixed_expressions(RULE, "device.driver == 'nvidia.com'") == ["device.driver == 'gpu.nvidia.com'"]


def test_driver_name_as_domain() -> None:
    assert fixed_expressions(RULE, 'device.attributes["nvidia.com"].model == "L4"') == [
        'device.attributes["gpu.nvidia.com"].model == "L4"'
    ]
    assert fixed_expressions(RULE, 'device.attributes["gpu.nvida.com"].type == "gpu"') == [
        'device.attributes["gpu.nvidia.com"].type == "gpu"'
    ]


@pytest.mark.parametrize(
    ("class_name", "expression", "level"),
    [
        ("gpu.nvidia.com", 'device.attributes["gpu.nvida.com"].type == "gpu"', "error"),
        ("gpu.nvidia.com", 'device.attributes["gpu.nvida.com"].type == "gpu" || true', "warning"),
        ("mine", 'device.attributes["gpu.nvida.com"].type == "gpu"', "warning"),
    ],
)
def test_typo_of_the_driver_of_the_class_is_an_error(class_name: str, expression: str, level: str) -> None:
    text = claim(expression, class_name=class_name)
    assert [found for found, _ in levels_and_messages(RULE, text)] == [level]


def test_domain_without_a_dot_is_left_to_another_rule() -> None:
    assert selector_messages(RULE, 'device.attributes["model"].string == "H100"') == []


def test_custom_drivers_are_not_reported() -> None:
    assert selector_messages(RULE, 'device.driver == "driver.example.com"') == []
    assert selector_messages(RULE, 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"') == []


def test_parameters_for_an_unknown_driver() -> None:
    text = claim("", devices_extra=CONFIG.format(driver="nvidia.com"))
    assert [level for level, _ in levels_and_messages(RULE, text)] == ["warning"]
    assert fixed_document(RULE, text)["spec"]["devices"]["config"][0]["opaque"]["driver"] == "gpu.nvidia.com"
    assert levels_and_messages(RULE, claim("", devices_extra=CONFIG.format(driver="gpu.nvidia.com"))) == []


def test_slices_are_the_complete_set_of_drivers() -> None:
    assert selector_messages(RULE, 'device.driver == "driver.example.com"', fleet="8xh100") == [
        ("error", 'no driver is named "driver.example.com" in the cluster')
    ]
    assert selector_messages(RULE, 'device.driver != "driver.example.com"', fleet="8xh100")[0][0] == "warning"
    assert selector_messages(RULE, 'device.driver == "gpu.nvidia.com"', fleet="8xh100") == []


def test_example_domains_are_not_reported() -> None:
    assert selector_messages(RULE, 'device.driver == "gpu.acme.example.com"') == []
    assert selector_messages(RULE, 'device.attributes["cpu.example.org"].model == "x"') == []


def test_driver_is_reported_once() -> None:
    expression = 'device.driver == "gpu.acme.io" && device.attributes["gpu.acme.io"].type == "x"'
    assert len(selector_messages(RULE, expression, fleet="t4")) == 1
    assert selector_messages(RULE, 'device.attributes["gpu.acme.io/type"] == "x"', fleet="t4") == []  # C205
