"""The order in which remedies are told."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.remedies import REMEDIES, REMEDY_ORDER, effort

_names = st.lists(st.sampled_from(list(REMEDIES)), max_size=4)


def test_what_asks_nothing_comes_first_and_what_changes_the_request_last() -> None:
    told = list(dict.fromkeys(remedy.scope for remedy in REMEDIES.values()))
    assert told == ["nothing", "where", "writing", "what"]


def test_the_kinds_do_not_mix() -> None:
    kinds = [remedy.scope for remedy in REMEDIES.values()]
    assert sum(one != other for one, other in pairwise(kinds)) == 3


def test_to_wait_comes_before_anything_and_fewer_devices_before_others() -> None:
    assert REMEDY_ORDER["wait"] == 0
    assert REMEDY_ORDER["select"] < REMEDY_ORDER["uncordon"] < REMEDY_ORDER["less"] < REMEDY_ORDER["other-class"] < REMEDY_ORDER["leave-out"]


@given(_names, _names)
def test_fewer_changes_are_less_effort_and_none_is_no_way(one: list[str], other: list[str]) -> None:
    if one and len(one) < len(other):
        assert effort(one) < effort(other)
    if one:
        assert effort(one) < effort([])
