"""Drivers that nobody has under that name."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import unknown_driver
from tests.unit.tools.check.rules.vocabulary.requests import after, becomes, claim, says, told

RULE = unknown_driver.RULE

CONFIG = """\
    config:
    - opaque:
        driver: {driver}
        parameters: {{apiVersion: resource.nvidia.com/v1beta1, kind: GpuConfig}}
"""


def test_the_name_of_a_resource_is_no_driver() -> None:
    assert says(RULE, 'device.driver == "nvidia.com"') == [
        ("warning", 'no driver is called "nvidia.com": that of NVIDIA GPUs is gpu.nvidia.com')
    ]
    assert becomes(RULE, "device.driver == 'nvidia.com'") == ["device.driver == 'gpu.nvidia.com'"]


def test_in_a_domain_too() -> None:
    assert becomes(RULE, 'device.attributes["nvidia.com"].model == "L4"') == [
        'device.attributes["gpu.nvidia.com"].model == "L4"'
    ]
    assert becomes(RULE, 'device.attributes["gpu.nvida.com"].type == "gpu"') == [
        'device.attributes["gpu.nvidia.com"].type == "gpu"'
    ]


def test_a_domain_without_a_dot_is_hardly_one() -> None:
    assert says(RULE, 'device.attributes["model"].string == "H100"') == []


def test_drivers_of_ones_own_are_fine() -> None:
    assert says(RULE, 'device.driver == "driver.example.com"') == []
    assert says(RULE, 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"') == []


def test_parameters_for_no_driver() -> None:
    text = claim("", more=CONFIG.format(driver="nvidia.com"))
    assert [level for level, _ in told(RULE, text)] == ["warning"]
    assert after(RULE, text)["spec"]["devices"]["config"][0]["opaque"]["driver"] == "gpu.nvidia.com"
    assert told(RULE, claim("", more=CONFIG.format(driver="gpu.nvidia.com"))) == []


def test_slices_close_the_world() -> None:
    assert says(RULE, 'device.driver == "driver.example.com"', fleet="8xh100") == [
        ("error", 'no driver is called "driver.example.com" in the cluster')
    ]
    assert says(RULE, 'device.driver != "driver.example.com"', fleet="8xh100")[0][0] == "warning"
    assert says(RULE, 'device.driver == "gpu.nvidia.com"', fleet="8xh100") == []


def test_names_of_examples_are_made_up() -> None:
    assert says(RULE, 'device.driver == "gpu.acme.example.com"') == []
    assert says(RULE, 'device.attributes["cpu.example.org"].model == "x"') == []


def test_a_driver_is_told_of_once() -> None:
    expression = 'device.driver == "gpu.acme.io" && device.attributes["gpu.acme.io"].type == "x"'
    assert len(says(RULE, expression, fleet="t4")) == 1
    assert says(RULE, 'device.attributes["gpu.acme.io/type"] == "x"', fleet="t4") == []  # C205
