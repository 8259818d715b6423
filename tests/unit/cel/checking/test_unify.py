"""Unification of types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.checking import types
from allotment.cel.checking.types import Type, list_of, map_of, optional_of, param
from allotment.cel.checking.unify import Bindings, are_assignable, is_assignable, most_general, substitute

A, B = param("A"), param("B")

atoms = st.sampled_from(
    [types.BOOL, types.INT, types.STRING, types.DYN, types.ANY, types.NULL, types.TIMESTAMP, types.QUANTITY, types.IP]
)
closed = st.recursive(
    atoms, lambda t: t.map(list_of) | t.map(optional_of) | st.builds(map_of, t, t) | t.map(types.type_of), max_leaves=6
)


@pytest.mark.parametrize(
    ("t1", "t2", "assignable"),
    [
        (types.INT, types.UINT, False),
        (types.DYN, list_of(types.INT), True),
        (types.INT, types.ANY, True),
        (types.NULL, types.TIMESTAMP, True),
        (types.NULL, types.DURATION, True),
        (types.NULL, optional_of(types.INT), True),
        (types.NULL, types.QUANTITY, True),
        (types.NULL, types.IP, True),
        (types.NULL, types.INT, False),
        (types.NULL, types.wrapper(types.INT), True),
        (types.NULL, list_of(types.INT), False),
        (types.wrapper(types.INT), types.INT, True),
        (list_of(types.DYN), list_of(types.INT), True),
        (map_of(types.STRING, types.INT), map_of(types.STRING, types.BOOL), False),
        (types.type_of(types.INT), types.type_of(types.BOOL), True),
        (types.QUANTITY, types.SEMVER, False),
        (types.ERROR, types.INT, True),
    ],
)
def test_assignability_of_pairs(t1: Type, t2: Type, assignable: bool) -> None:
    assert is_assignable({}, t1, t2) is assignable
    assert is_assignable({}, t2, t1) is assignable


def test_a_parameter_is_bound_to_the_most_general_type() -> None:
    bindings: Bindings = {}
    assert are_assignable(bindings, [types.INT, types.DYN], [A, A])
    assert substitute(bindings, list_of(A), False) is list_of(types.DYN)


def test_a_failed_attempt_leaves_no_bindings() -> None:
    bindings: Bindings = {}
    assert not are_assignable(bindings, [types.INT, types.STRING], [A, A])
    assert not is_assignable(bindings, map_of(types.INT, types.INT), map_of(A, types.STRING))
    assert bindings == {}


def test_a_parameter_cannot_contain_itself() -> None:
    assert not is_assignable({}, A, list_of(A))
    assert not is_assignable({}, map_of(A, B), map_of(list_of(B), list_of(A)))


def test_unbound_parameters_become_dyn_on_request() -> None:
    assert substitute({}, map_of(A, types.INT), True) is map_of(types.DYN, types.INT)
    assert substitute({}, map_of(A, types.INT), False) is map_of(A, types.INT)
    assert substitute({A: list_of(B)}, optional_of(A), True) is optional_of(list_of(types.DYN))


@given(closed)
def test_every_type_is_assignable_to_itself_dyn_and_a_parameter(t: Type) -> None:
    assert is_assignable({}, t, t)
    assert is_assignable({}, t, types.DYN)
    bindings: Bindings = {}
    assert is_assignable(bindings, t, A)
    assert substitute(bindings, A, False) is t


@given(closed, closed)
def test_most_general_returns_one_of_two_unifiable_types(t1: Type, t2: Type) -> None:
    assert is_assignable({}, t1, t2) == is_assignable({}, t2, t1)
    if is_assignable({}, t1, t2):
        wider = most_general(t1, t2)
        assert wider in (t1, t2)


@given(closed)
def test_types_are_interned(t: Type) -> None:
    assert list_of(t) is list_of(t)
    assert map_of(t, t) is map_of(t, t)
    assert t.size <= list_of(t).size
