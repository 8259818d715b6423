"""Drivers that nobody has under that name."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import unknown_driver
from tests.unit.tools.check.rules.vocabulary.requests import fixed_document, fixed_expressions, claim, selector_messages, levels_and_messages

RULE = unknown_driver.RULE

CONFIG = """\
    config:
    - opaque:
        driver: {driver}
        parameters: {{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig}}
"""


def test_the_name_of_a_resource_is_no_driver() -> None:
    assert selector_messages(RULE, 'device.driver == "nvidia.com"') == [
        ("warning", 'no driver is called "nvidia.com": that of NVIDIA GPUs is gpu.nvidia.com')
    ]
    assert fixed_expressions(RULE, "device.driver == 'nvidia.com'") == ["device.driver == 'gpu.nvidia.com'"]


def test_in_a_domain_too() -> None:
    assert fixed_expressions(RULE, 'device.attributes["nvidia.com"].model == "L4"') == [
        'device.attributes["gpu.nvidia.com"].model == "L4"'
    ]
    assert fixed_expressions(RULE, 'device.attributes["gpu.nvida.com"].type == "gpu"') == [
        'device.attributes["gpu.nvidia.com"].type == "gpu"'
    ]


def test_a_domain_without_a_dot_is_hardly_one() -> None:
    assert selector_messages(RULE, 'device.attributes["model"].string == "H100"') == []


def test_drivers_of_ones_own_are_fine() -> None:
    assert selector_messages(RULE, 'device.driver == "driver.example.com"') == []
    assert selector_messages(RULE, 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"') == []


def test_parameters_for_no_driver() -> None:
    text = claim("", devices_extra=CONFIG.format(driver="nvidia.com"))
    assert [level for level, _ in levels_and_messages(RULE, text)] == ["warning"]
    assert fixed_document(RULE, text)["spec"]["devices"]["config"][0]["opaque"]["driver"] == "gpu.nvidia.com"
    assert levels_and_messages(RULE, claim("", devices_extra=CONFIG.format(driver="gpu.nvidia.com"))) == []


def test_slices_close_the_world() -> None:
    assert selector_messages(RULE, 'device.driver == "driver.example.com"', fleet="8xh100") == [
        ("error", 'no driver is called "driver.example.com" in the cluster')
    ]
    assert selector_messages(RULE, 'device.driver != "driver.example.com"', fleet="8xh100")[0][0] == "warning"
    assert selector_messages(RULE, 'device.driver == "gpu.nvidia.com"', fleet="8xh100") == []


def test_names_of_examples_are_made_up() -> None:
    assert selector_messages(RULE, 'device.driver == "gpu.acme.example.com"') == []
    assert selector_messages(RULE, 'device.attributes["cpu.example.org"].model == "x"') == []


def test_a_driver_is_told_of_once() -> None:
    expression = 'device.driver == "gpu.acme.io" && device.attributes["gpu.acme.io"].type == "x"'
    assert len(selector_messages(RULE, expression, fleet="t4")) == 1
    assert selector_messages(RULE, 'device.attributes["gpu.acme.io/type"] == "x"', fleet="t4") == []  # C205
