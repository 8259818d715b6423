"""V317: conditions that no known hardware meets."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import no_known_hardware
from tests.unit.tools.check.rules.vocabulary.rule_results import NVIDIA, claim, matches_of, selector_messages

RULE = no_known_hardware.RULE
AMPERE = f'{NVIDIA}.architecture == "Ampere"'


def memory(least: str) -> str:
    """The condition on memory."""
    return f'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("{least}")) >= 0'


def test_conditions_that_exclude_each_other() -> None:
    expression = f"{AMPERE} && {memory('120Gi')}"
    (match,) = matches_of(RULE, claim(expression))
    assert match.message == "request gpu: no known device of gpu.nvidia.com meets all conditions"
    assert match.help.startswith("those that meet the other conditions have at most 80Gi of memory")
    assert match.span is not None
    assert expression[slice(*match.span)] == memory("120Gi")


def test_more_memory_than_any_known_device_has() -> None:
    (match,) = matches_of(RULE, claim(memory("900Gi")))
    assert match.message == "request gpu: no known device of gpu.nvidia.com meets the condition"
    assert match.help.startswith("they have at most ")


def test_product_of_another_architecture() -> None:
    hopper = f'{NVIDIA}.productName == "NVIDIA A100-SXM4-40GB" && {NVIDIA}.architecture == "Hopper"'
    assert [level for level, _ in selector_messages(RULE, hopper)] == ["note"]


@pytest.mark.parametrize(
    "expression",
    [
        f"{AMPERE} && {memory('80Gi')}",
        f"{AMPERE} || {memory('900Gi')}",
        f'{NVIDIA}.driverVersion.compareTo(semver("999.0.0")) >= 0',
        f'{NVIDIA}.productName == "A100-80GB"',  # V304 reports it
        f'{NVIDIA}.architecture == "Hopper" && {memory("80Gi")}',  # V308 reports it
        'device.capacity["gpu.nvidia.com"].memory == quantity("64Gi")',  # M402 reports it
        'device.capacity["gpu.nvidia.com"].memory >= 900',  # C210 reports it
        'device.attributes["gpu.vendor.example"].architecture == "Ampere"',
    ],
)
def test_other_conditions_are_not_reported(expression: str) -> None:
    assert selector_messages(RULE, expression) == []


def test_cluster_decides_instead() -> None:
    assert selector_messages(RULE, memory("900Gi"), fleet="t4") == []
