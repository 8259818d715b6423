"""V304: values that no device has."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import unknown_value
from tests.unit.tools.check.rules.vocabulary.rule_results import NVIDIA, fixed_expressions, selector_messages

RULE = unknown_value.RULE


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (f'{NVIDIA}.architecture == "Amper"', f'{NVIDIA}.architecture == "Ampere"'),
        (f"{NVIDIA}.architecture == 'ampere'", f"{NVIDIA}.architecture == 'Ampere'"),
        (f'{NVIDIA}.architecture in ["Ampere", "Hoper"]', f'{NVIDIA}.architecture in ["Ampere", "Hopper"]'),
        (f'{NVIDIA}.brand == "NVIDIA"', f'{NVIDIA}.brand == "Nvidia"'),
        (f'{NVIDIA}.architecture == "Ada"', f'{NVIDIA}.architecture == "Ada Lovelace"'),
        (f'{NVIDIA}.type == "gpus"', f'{NVIDIA}.type == "gpu"'),
        (f'{NVIDIA}.productName == "H100"', f'{NVIDIA}.productName.contains("H100")'),
        (f'{NVIDIA}.productName == "h100"', f'{NVIDIA}.productName.contains("H100")'),
        (f'{NVIDIA}.productName != "H100"', f'!{NVIDIA}.productName.contains("H100")'),
        (f'{NVIDIA}.productName == "nvidia l4"', f'{NVIDIA}.productName == "NVIDIA L4"'),
        (f'{NVIDIA}.productName == "A100-SXM4-40GB"', f'{NVIDIA}.productName.contains("A100-SXM4-40GB")'),
        (f'{NVIDIA}.productName.contains("a100")', f'{NVIDIA}.productName.contains("A100")'),
        (f"!{NVIDIA}.productName.startsWith('nvidia h100')", f"!{NVIDIA}.productName.startsWith('NVIDIA H100')"),
        (f'{NVIDIA}.productName.endsWith("NVL72")', f'{NVIDIA}.productName.endsWith("NVL72")'),
        (f'{NVIDIA}.productName.endsWith("nvl")', f'{NVIDIA}.productName.endsWith("NVL")'),
        (f'{NVIDIA}.productName.matches("a100.*80gb")', f'{NVIDIA}.productName.matches("A100.*80GB")'),
        (
            f'{NVIDIA}.productName.matches("nvidia a100-[a-z0-9]+-80gb")',
            f'{NVIDIA}.productName.matches("NVIDIA A100-[A-Z0-9]+-80GB")',
        ),
        (f'{NVIDIA}.productName.matches("tesla t4")', f'{NVIDIA}.productName.matches("(?i)tesla t4")'),
        (f'{NVIDIA}.productName == "nvidia-a100"', f'{NVIDIA}.productName == "nvidia-a100"'),
        (
            f'{NVIDIA}.productName == "A100-80GB"',
            f'{NVIDIA}.productName in ["NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"]',
        ),
    ],
)
def test_fixes(written: str, expected: str) -> None:
    assert fixed_expressions(RULE, written) == [expected]


def test_message() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.architecture == "Amper"') == [
        ("warning", 'no known device has architecture "Amper": did you mean "Ampere"?')
    ]


def test_message_about_the_case() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.productName.matches("a100.*80gb")') == [
        ("warning", 'no known device has a productName that matches "a100.*80gb": upper and lower case differ')
    ]


@pytest.mark.parametrize(
    "test",
    [
        'matches("A100.*80GB")', 'matches("(?i)a100")', 'contains("A100")', 'contains("R300")', 'matches("r300")',
        'lowerAscii().contains("a100")', 'startsWith("NVIDIA")',
    ],
)  # fmt: skip
def test_tests_that_some_value_passes_or_none_in_any_case_are_not_reported(test: str) -> None:
    assert selector_messages(RULE, f"{NVIDIA}.productName.{test}") == []


@pytest.mark.parametrize("product", ["NVIDIA L40", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 PCIe", "Tesla V100-SXM2-32GB"])
def test_unknown_products_are_not_reported(product: str) -> None:
    assert selector_messages(RULE, f'{NVIDIA}.productName == "{product}"') == []


@pytest.mark.parametrize(
    "condition",
    [
        f'{NVIDIA}.deviceID == "0x2331"',
        f'{NVIDIA}.architecture == "Rubin"',
        'device.attributes["gpu.intel.com"].model == "B570"',
        'device.attributes["gpu.amd.com"].partitionProfile == "tpx_nps1"',
        'device.attributes["gpu.example.com"].model == "BLEEDING-EDGE-GPU"',
    ],
)
def test_unknown_values_of_open_sets_are_not_reported(condition: str) -> None:
    assert selector_messages(RULE, condition) == []


def test_unknown_type_without_suggestion() -> None:
    assert selector_messages(RULE, f'{NVIDIA}.type == "quantum"') == [("warning", 'no known device has type "quantum"')]


def test_values_of_the_cluster_are_valid() -> None:
    cluster = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: gpu.nvidia.com
  nodeName: one
  pool: {name: one, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes:
      architecture: {string: Hoppers}
"""
    assert selector_messages(RULE, f'{NVIDIA}.architecture == "Hoppers"', cluster=cluster) == []
    assert len(selector_messages(RULE, f'{NVIDIA}.architecture == "Hoppers"')) == 1


def test_models_in_a_list_become_substring_tests() -> None:
    (first, second) = (
        fixed_expressions(RULE, f'{NVIDIA}.productName in ["A100", "H100"] && true'),
        fixed_expressions(RULE, f'{NVIDIA}.productName in ["A100", "H100"]'),
    )
    tests = f'{NVIDIA}.productName.contains("A100") || {NVIDIA}.productName.contains("H100")'
    assert (first, second) == ([f"({tests}) && true"], [tests])


def test_the_product_of_the_fleet_is_meant() -> None:
    """Not the PCIe card, which the fleet does not have, and not the card of 40 GB."""
    cluster = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: gpu.nvidia.com
  nodeName: one
  pool: {name: one, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {productName: {string: NVIDIA A100-SXM4-40GB}}
  - name: gpu-1
    attributes: {productName: {string: NVIDIA A100-SXM4-80GB}}
"""
    written = f'{NVIDIA}.productName == "A100-80GB"'
    assert selector_messages(RULE, written, cluster=cluster) == [
        ("warning", 'no known device has productName "A100-80GB": did you mean "NVIDIA A100-SXM4-80GB"?')
    ]
    assert fixed_expressions(RULE, written, cluster=cluster) == [f'{NVIDIA}.productName == "NVIDIA A100-SXM4-80GB"']


def test_products_of_one_name_and_memory_are_all_meant() -> None:
    ((_, message),) = selector_messages(RULE, f'{NVIDIA}.productName == "A100-80GB"')
    assert message.endswith('did you mean "NVIDIA A100 80GB PCIe" or "NVIDIA A100-SXM4-80GB"?')
