"""V308: memory bounds between a product's label and its published capacity."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import memory_threshold
from tests.unit.tools.check.rules.vocabulary.rule_results import NVIDIA, fixed_expressions, selector_messages

RULE = memory_threshold.RULE
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


def test_bound_equal_to_the_label() -> None:
    assert selector_messages(RULE, f'{MEMORY}.compareTo(quantity("80Gi")) >= 0') == [
        (
            "warning",
            (
                "requiring 80Gi or more excludes NVIDIA H100 80GB HBM3 (81559Mi) and NVIDIA H100 PCIe (81559Mi), which "
                "have less than their advertised size"
            ),
        )
    ]
    assert fixed_expressions(RULE, f'{MEMORY}.compareTo(quantity("80Gi")) >= 0') == [
        f'{MEMORY}.compareTo(quantity("80G")) >= 0'
    ]


@pytest.mark.parametrize("bound", ["20Gi", "20000Mi", "30Gi", "79Gi", "64Gi", "80G"])
def test_bounds_unrelated_to_labels(bound: str) -> None:
    assert selector_messages(RULE, f'{MEMORY}.isGreaterThan(quantity("{bound}"))') == []


def test_amount_that_a_device_publishes_is_kept() -> None:
    assert selector_messages(RULE, f'{MEMORY}.compareTo(quantity("81920Mi")) >= 0') == []
    assert selector_messages(RULE, f'{MEMORY}.compareTo(quantity("81920Mi")) >= 0', fleet="h100") != []


def test_only_selected_products_count() -> None:
    a100 = f'{NVIDIA}.productName == "NVIDIA A100-SXM4-80GB"'
    assert selector_messages(RULE, f'{a100} && {MEMORY}.compareTo(quantity("80Gi")) >= 0') == []
    hopper = f'{NVIDIA}.architecture == "Hopper"'
    assert len(selector_messages(RULE, f'{hopper} && {MEMORY}.compareTo(quantity("80Gi")) >= 0')) == 1


def test_strict_bound_equal_to_the_memory() -> None:
    # The bound may exclude them intentionally, unless no other product is selected.
    ((level, message),) = selector_messages(RULE, f'{MEMORY}.isGreaterThan(quantity("40Gi"))')
    assert level == "note"
    assert message == "requiring more than 40Gi excludes NVIDIA A100-SXM4-40GB (40Gi), which has exactly this amount"
    a100 = f'{NVIDIA}.productName == "NVIDIA A100-SXM4-40GB"'
    expression = f'{a100} && {MEMORY}.isGreaterThan(quantity("40Gi"))'
    assert [level for level, _ in selector_messages(RULE, expression)] == ["warning"]
    assert fixed_expressions(RULE, expression) == [f'{a100} && {MEMORY}.isGreaterThan(quantity("39Gi"))']
    assert selector_messages(RULE, f'{MEMORY}.compareTo(quantity("40Gi")) >= 0') == []


@pytest.mark.parametrize("bound", ["16000Mi", "24000Mi", "47Gi"])
def test_bound_that_larger_products_satisfy(bound: str) -> None:
    assert selector_messages(RULE, f'{MEMORY}.isGreaterThan(quantity("{bound}"))') == []


def test_bound_that_no_selected_product_satisfies() -> None:
    small = f'{NVIDIA}.productName in ["NVIDIA L4", "Tesla T4", "NVIDIA L40S"]'
    assert [level for level, _ in selector_messages(RULE, f'{small} && {MEMORY}.isGreaterThan(quantity("47Gi"))')] == [
        "warning"
    ]


def test_partitions_have_less_than_their_name_says() -> None:
    profile = f'{NVIDIA}.profile == "3g.40gb"'
    expression = f'{profile} && {MEMORY}.compareTo(quantity("40Gi")) >= 0'
    assert [level for level, _ in selector_messages(RULE, expression, class_name="mig.nvidia.com")] == ["warning"]
    assert fixed_expressions(RULE, expression, class_name="mig.nvidia.com") == [
        f'{profile} && {MEMORY}.compareTo(quantity("40G")) >= 0'
    ]


def test_only_devices_of_the_cluster_count() -> None:
    expression = f'{MEMORY}.compareTo(quantity("80Gi")) >= 0'
    assert selector_messages(RULE, expression, fleet="a100-80gb") == []
    assert len(selector_messages(RULE, expression, fleet="8xh100")) == 1


def test_optional_conditions_are_not_reported() -> None:
    assert selector_messages(RULE, f'{MEMORY}.compareTo(quantity("80Gi")) >= 0 || {NVIDIA}.type == "gpu"') == []


def test_bound_that_no_device_of_the_cluster_satisfies_is_an_error() -> None:
    expression = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0'
    assert [level for level, _ in selector_messages(RULE, expression, fleet="h100")] == ["error"]
