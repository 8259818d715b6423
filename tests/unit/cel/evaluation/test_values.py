from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.evaluation.values import (
    ABSENT,
    CostLimitExceeded,
    EvaluationAborted,
    ListValue,
    MapValue,
    Optional,
    Uint,
    map_key,
    size,
    type_name,
    weight,
)


def test_equal_values_of_different_types_have_different_keys() -> None:
    keys = [1, True, Uint(1), 1.0, "1", b"1".decode() + " ", None]
    assert len({map_key(key) for key in keys}) == len(keys)


def test_number_lookups_find_keys_of_other_integer_types() -> None:
    ints = MapValue({map_key(1): (1, "int")})
    assert ints.find(Uint(1)) == ints.find(1.0) == "int"
    assert ints.find(1.5) is ints.find(float("inf")) is ints.find(True) is ABSENT
    doubles = MapValue({map_key(1.0): (1.0, "double")})
    assert doubles.find(1.0) == "double"
    assert doubles.find(1) is ABSENT


def test_keys_that_go_cannot_hash_abort_the_evaluation() -> None:
    with pytest.raises(EvaluationAborted, match=r"hash of unhashable type types\.Bytes"):
        map_key(b"x")


def test_the_default_is_found_but_not_contained() -> None:
    domains = MapValue.from_strings([("a", 1)], default=MapValue({}))
    assert type_name(domains.find("b")) == "map"
    assert not domains.contains_key("b")
    assert domains.contains_key("a")
    assert len(domains) == 1


@given(st.lists(st.lists(st.integers(), max_size=3), max_size=6), st.data())
def test_concatenated_lists_equal_copied_ones(parts: list[list[int]], data: st.DataObject) -> None:
    joined = ListValue([])
    for part in parts:
        joined = ListValue.concat(joined, ListValue(part))
    flat = [item for part in parts for item in part]
    assert joined.size == len(flat)
    if flat:
        index = data.draw(st.integers(0, len(flat) - 1))
        assert joined.at(index) == flat[index]
    assert list(joined) == flat


def test_long_chains_of_concatenations_do_not_recurse() -> None:
    joined = ListValue([0])
    for i in range(1, 5000):
        joined = ListValue.concat(joined, ListValue([i]))
    assert joined.at(0) == 0
    assert list(joined) == list(range(5000))


def test_doubled_lists_are_not_copied_until_their_elements_are_read() -> None:
    doubled = ListValue([1])
    for _ in range(60):
        doubled = ListValue.concat(doubled, doubled)
    assert doubled.size == 2**60
    with pytest.raises(CostLimitExceeded):
        list(doubled)


def test_weight_counts_shared_parts_each_time() -> None:
    nested = ListValue(["x"])
    for _ in range(40):
        nested = ListValue([nested, nested])
    assert weight(nested) > 2**40


def test_sizes_of_values() -> None:
    assert size("é😀") == 2
    assert size(b"abc") == 3
    assert size(ListValue([1, 2])) == 2
    assert size(Optional("abc")) == 3
    assert size(7) == size(None) == size(Optional(ABSENT)) == 1
