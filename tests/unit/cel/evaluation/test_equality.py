from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.evaluation.equality import compare, equal, equal_in_search
from allotment.cel.evaluation.library.quantities import quantity
from allotment.cel.evaluation.values import CelError, ListValue, MapValue, Optional, QuantityPointer, Uint, map_key
from allotment.model.semver import Semver
from tests.unit.cel.evaluating import outcome

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1).map(Uint), st.floats(allow_nan=False), st.booleans()
)


def test_numbers_are_equal_across_types_but_not_to_bools() -> None:
    assert equal(1, Uint(1))
    assert equal(1, 1.0)
    assert equal(Uint(2), 2.0)
    assert not equal(1, True)
    assert not equal(1, "1")
    # Both are the same double.
    assert equal(2**53 + 1, float(2**53))


def test_nan_equals_nothing_and_has_no_order() -> None:
    assert not equal(math.nan, math.nan)
    with pytest.raises(CelError, match="NaN values cannot be ordered"):
        compare(1, math.nan)


def test_comparing_a_kubernetes_value_with_another_type_fails() -> None:
    with pytest.raises(CelError, match="no such overload"):
        equal(Semver.parse("1.0.0"), "1.0.0")
    assert not equal("1.0.0", Semver.parse("1.0.0"))
    assert not equal(Semver.parse("1.0.0"), None)


def test_errors_inside_a_list_count_as_equal_unless_it_is_a_concatenation() -> None:
    version, text = ListValue([Semver.parse("1.0.0")]), ListValue(["x"])
    assert equal(version, text)
    assert not equal(text, version)
    with pytest.raises(CelError):
        equal(ListValue.concat(version, version), ListValue(["x", "x"]))


def test_results_of_arithmetic_fail_as_right_operands() -> None:
    total = QuantityPointer.from_quantity(quantity("1").add(quantity("1")))
    assert equal(total, quantity("2"))
    with pytest.raises(CelError):
        equal(quantity("2"), total)
    assert not equal_in_search(quantity("2"), total)


def test_contents_of_optionals_are_compared_without_the_special_case_for_null() -> None:
    assert equal(Optional(1), Optional(Uint(1)))
    with pytest.raises(CelError):
        equal(Optional(quantity("1")), Optional(None))


@given(NUMBERS, NUMBERS)
def test_equality_is_symmetric_and_agrees_with_order(left: object, right: object) -> None:
    assert equal(left, right) == equal(right, left)
    if (type(left) is bool) == (type(right) is bool):
        assert (compare(left, right) == 0) == equal(left, right)
        assert compare(left, right) == -compare(right, left)


@given(st.dictionaries(NUMBERS, st.integers(0, 3), max_size=5))
def test_a_map_equals_its_copy(content: dict[object, int]) -> None:
    first = MapValue({map_key(k): (k, v) for k, v in content.items()})
    second = MapValue({map_key(k): (k, v) for k, v in reversed(content.items())})
    assert equal(first, second)


def test_not_equal_is_true_if_equal_fails() -> None:
    assert outcome('dyn(quantity("1")) == "x"') == "error: no such overload"
    assert outcome('dyn(quantity("1")) != "x"') is True
