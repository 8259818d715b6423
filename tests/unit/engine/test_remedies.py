"""The order of remedies."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.remedies import REMEDIES, REMEDY_ORDER, effort

_names = st.lists(st.sampled_from(list(REMEDIES)), max_size=4)


def test_scopes_are_ordered_from_no_change_to_other_devices() -> None:
    scopes = list(dict.fromkeys(remedy.scope for remedy in REMEDIES.values()))
    assert scopes == ["nothing", "placement", "spelling", "devices"]


def test_remedies_are_grouped_by_scope() -> None:
    kinds = [remedy.scope for remedy in REMEDIES.values()]
    assert sum(left != right for left, right in pairwise(kinds)) == 3


def test_waiting_comes_first_and_fewer_devices_before_other_devices() -> None:
    assert REMEDY_ORDER["wait"] == 0
    assert (
        REMEDY_ORDER["uncordon"]
        < REMEDY_ORDER["select"]
        < REMEDY_ORDER["less"]
        < REMEDY_ORDER["other-class"]
        < REMEDY_ORDER["leave-out"]
    )


@given(_names, _names)
def test_fewer_changes_are_less_effort_and_no_change_is_last(left: list[str], right: list[str]) -> None:
    if left and len(left) < len(right):
        assert effort(left) < effort(right)
    if left:
        assert effort(left) < effort([])
