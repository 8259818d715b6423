"""Distances of published values from written ones, with the products of the fleet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.diagnosis.value_distance import (
    CARD_SIZES,
    amount_distance,
    name_distance,
    named_memory,
    names_same,
    sold_as,
    value_distance,
)
from allotment.fleet.advertised_memory import accelerator_gb
from allotment.fleet.profiles import accelerators
from allotment.model.quantity import Quantity
from allotment.model.semver import Semver

PRODUCTS = sorted({model.product for model in accelerators().values()})
_amounts = st.integers(min_value=1, max_value=2**40)


@pytest.mark.parametrize(
    ("written", "published"),
    [
        ("A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("a100 80gb pcie", "NVIDIA A100 80GB PCIe"),
        ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe"),
        ("A100-SXM-40GB", "NVIDIA A100-SXM4-40GB"),
        ("H100 80GB", "NVIDIA H100 80GB HBM3"),
        ("h100-nvl", "NVIDIA H100 NVL"),
        ("H200", "NVIDIA H200"),
        ("L40S", "NVIDIA L40S"),
        ("L40", "NVIDIA L40"),
        ("A10", "NVIDIA A10"),
        ("A10G", "NVIDIA A10G"),
        ("T4", "Tesla T4"),
        ("V100-32GB", "Tesla V100-SXM2-32GB"),
        ("V100 PCIe", "Tesla V100-PCIE-16GB"),
        ("RTX6000", "Quadro RTX 6000"),
        ("RTX A6000", "NVIDIA RTX A6000"),
        ("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("MI300X", "AMD_Instinct_MI300X_OAM"),
    ],
)
def test_a_shortened_name_is_nearest_to_its_product(written: str, published: str) -> None:
    assert min(PRODUCTS, key=lambda product: (name_distance(written, product), product)) == published
    assert names_same(written, published)


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("A100-80GB", "NVIDIA A100-SXM4-40GB"),
        ("H100", "NVIDIA A100-SXM4-80GB"),
        ("H100", "NVIDIA H200"),
        ("L4", "NVIDIA L40"),
        ("L40", "NVIDIA L40S"),
        ("A100-PCIE", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA", "NVIDIA L4"),
        ("", "NVIDIA L4"),
    ],
)
def test_another_model_or_size_is_not_the_same_product(written: str, other: str) -> None:
    assert not names_same(written, other)


@given(st.sampled_from(PRODUCTS), st.sampled_from(PRODUCTS))
def test_a_product_is_nearest_to_itself(one: str, other: str) -> None:
    assert name_distance(one, one) == 0
    assert names_same(one, one)
    assert (name_distance(one, other) == 0) == (one == other)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_names_can_be_compared(one: str, other: str) -> None:
    assert name_distance(one, other) >= 0
    assert name_distance(one, one) == 0


@given(_amounts, _amounts, _amounts)
def test_of_two_larger_amounts_the_smaller_one_is_nearer(wanted: int, one: int, other: int) -> None:
    wanted, near, far = sorted((wanted, one, other))
    assert amount_distance(wanted, near) <= amount_distance(wanted, far)
    assert amount_distance(wanted, near) == pytest.approx(amount_distance(near, wanted))


def test_values_of_other_types_are_compared() -> None:
    assert value_distance(9, 8) < value_distance(9, 1)
    assert value_distance(("A100", "H100"), "NVIDIA H100") == value_distance("H100", "NVIDIA H100")
    assert value_distance(Semver.parse("550.1.0"), Semver.parse("550.2.0")) < 0.1
    assert (value_distance(True, False), value_distance("a", 1)) == (1.0, 1.0)


def test_memory_is_stated_in_gigabytes_only() -> None:
    names = ("NVIDIA A100 80GB PCIe", "nvidia-l4-24gb", "NVIDIA L4", "3g.40gb", "80Gi")
    assert [named_memory(name) // 10**9 for name in names] == [80, 24, 0, 0, 0]


@given(
    st.integers(min_value=1, max_value=512) | st.sampled_from(sorted(CARD_SIZES)),
    st.lists(_amounts.map(lambda mib: Quantity.parse(f"{mib}Mi")), max_size=4),
)
def test_gigabytes_are_intended_only_by_the_gibibytes_of_a_card_size_that_a_device_just_lacks(
    size: int, amounts: list[Quantity]
) -> None:
    wanted = Quantity.parse(f"{size}Gi")
    sold = sold_as(wanted, amounts)
    just_less = [amount for amount in amounts if Quantity.parse(f"{size}G") <= amount < wanted]
    assert (sold is not None) == (size in CARD_SIZES and bool(just_less))
    assert sold is None or sold.amount < wanted


def test_only_whole_gibibytes_stand_for_gigabytes() -> None:
    card = [Quantity.parse("23034Mi")]
    assert sold_as(Quantity.parse("24G"), card) is None
    assert sold_as(Quantity.parse("23500Mi"), card) is None
    both = sold_as(Quantity.parse("24Gi"), [*card, Quantity.parse("23028Mi")])
    assert both is not None
    assert both.reason == "cards sold as 24 GB have 23028Mi to 23034Mi"


def test_the_sizes_of_all_known_cards_are_sold() -> None:
    assert {accelerator_gb(model) for model in accelerators().values()} <= CARD_SIZES


@pytest.mark.parametrize(("written", "published"), [("81Gi", "80Gi"), ("45Gi", "46068Mi")])
def test_an_amount_that_no_card_is_sold_with_is_meant_as_written(written: str, published: str) -> None:
    assert sold_as(Quantity.parse(written), [Quantity.parse(published)]) is None
