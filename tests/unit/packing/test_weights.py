"""Weights of pieces: no set of pieces that fits a unit weighs more than the unit."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from allotment.packing.dual_feasible import derived_functions, standard_functions
from allotment.packing.oracle import fits_units
from allotment.packing.unit_weights import unit_weights
from tests.unit.packing.random_problems import fits


@st.composite
def _filled(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A unit's size, and pieces that fit it."""
    size = draw(st.integers(1, 60))
    pieces: list[int] = []
    while sum(pieces) < size and draw(st.booleans()):
        pieces.append(draw(st.integers(1, size - sum(pieces))))
    return size, pieces


@given(_filled(), st.lists(st.integers(1, 60), max_size=8))
def test_pieces_that_fit_a_unit_weigh_no_more_than_it(unit: tuple[int, list[int]], others: list[int]) -> None:
    size, pieces = unit
    for weighing in (*standard_functions(size), *derived_functions(size, [*pieces, *(n for n in others if n <= size)])):
        assert sum(map(weighing.weight, pieces)) <= weighing.capacity, weighing.name


@given(_filled(), st.integers(0, 1 << 30))
def test_computed_weights_accept_pieces_that_fit(unit: tuple[int, list[int]], seed: int) -> None:
    size, pieces = unit
    random = Random(seed)
    sizes = tuple(sorted({*pieces, *(random.randint(1, size) for _ in range(4))}))
    weights, heaviest = unit_weights(size, sizes, {piece: random.randint(0, 5) for piece in sizes})
    assert sum(weights[piece] for piece in pieces) <= heaviest


def test_computed_weights_exclude_pieces_that_fit_only_by_sum() -> None:
    """Of pieces that fit three units only by their sum, nearly all sets are too heavy by their own weights."""
    random = Random(3)
    missed = found = 0
    for _ in range(150):
        pieces = sorted(
            (random.choice((16, 23, 32, 47, 55, 59, 81)) for _ in range(random.randint(4, 9))), reverse=True
        )
        if sum(pieces) <= 300 and not fits(tuple(pieces), (100,) * 3):
            weights, heaviest = unit_weights(100, tuple(sorted(set(pieces))), {p: pieces.count(p) for p in pieces})
            heavy = sum(weights[piece] for piece in pieces) > 3 * heaviest
            found += heavy
            missed += not heavy
    assert found > 5 * missed


@given(st.lists(st.integers(1, 10), max_size=9), st.integers(1, 4))
def test_fits_units_equals_enumeration(pieces: list[int], units: int) -> None:
    pieces.sort(reverse=True)
    assert fits_units(units, 10, tuple(pieces)) == fits(tuple(pieces), (10,) * units)
