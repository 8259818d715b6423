"""Memory bounds include all cards of an advertised size and no smaller one."""

from __future__ import annotations

import pytest

from allotment.fleet.advertised_memory import GIB, MemorySize, accelerator_gb, memory_bound, product_gb
from allotment.fleet.profiles import MIB, accelerators
from allotment.model.quantity import Quantity


def sizes(vendor: str) -> list[MemorySize]:
    return [
        MemorySize(accelerator_gb(model), model.memory_mib * MIB)
        for model in accelerators().values()
        if model.vendor == vendor
    ]


@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_a_bound_separates_the_sizes_of_known_cards(vendor: str) -> None:
    cards = sizes(vendor)
    for gb in range(1, max(cards).advertised + 1):
        bound = memory_bound(gb, cards)
        assert bound is not None
        amount = Quantity.parse(bound.quantity).value()
        for card in cards:
            assert (card.published >= amount) == (card.advertised >= gb), (gb, card)
        assert amount <= gb * GIB


@pytest.mark.parametrize(("gb", "quantity"), [(80, "79Gi"), (24, "22Gi"), (16, "15Gi"), (48, "44Gi"), (40, "40Gi")])
def test_cards_publish_less_than_their_size(gb: int, quantity: str) -> None:
    bound = memory_bound(gb, sizes("nvidia"))
    assert bound is not None
    assert bound.quantity == quantity


def test_no_bound_without_a_card_or_between_equal_cards() -> None:
    assert memory_bound(500, sizes("nvidia")) is None
    assert memory_bound(24, [MemorySize(16, 20 * GIB), MemorySize(24, 20 * GIB)]) is None


def test_a_bound_between_close_cards_is_in_mebibytes() -> None:
    bound = memory_bound(24, [MemorySize(16, 22600 * MIB), MemorySize(24, 23028 * MIB)])
    assert bound is not None
    assert bound.quantity == "23028Mi"


def test_the_size_of_an_unknown_product_is_in_its_name() -> None:
    assert product_gb("NVIDIA A100-PCIE-40GB", 40960 * MIB) == 40
    assert product_gb("NVIDIA Thor", 100 * GIB) == 100
