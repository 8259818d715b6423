"""Remedies by distance from what was intended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.engine.remedies import FARTHEST, REMEDIES, Distance, LossClass, distance, is_alternative

_names = st.lists(st.sampled_from(list(REMEDIES)), min_size=1, max_size=4)


def test_the_table_is_ordered_by_loss() -> None:
    losses = [remedy.loss for remedy in REMEDIES.values()]
    assert losses == sorted(losses)
    assert set(losses) == set(LossClass)


def test_a_spelling_correction_is_nearer_than_waiting_and_a_dropped_condition_is_far() -> None:
    ordered = ["name", "uncordon", "select", "wait", "less", "other-value", "other-class", "constraint", "condition"]
    distances = [distance([name]) for name in ordered]
    assert distances == sorted(distances)
    assert len({found.loss for found in distances}) == len(ordered)


def test_two_corrections_are_nearer_than_one_dropped_condition() -> None:
    assert distance(["name", "correction"]) < distance(["condition"])


def test_within_a_class_fewer_edits_precede_smaller_ones() -> None:
    assert Distance(5, 1, 7.0) < Distance(5, 2, 0.5) < Distance(6, 1, 0.0)


@given(_names, _names)
def test_a_combination_loses_as_much_as_its_worst_part(left: list[str], right: list[str]) -> None:
    together = distance([*left, *right])
    assert together.loss == max(distance(left).loss, distance(right).loss)
    assert together > max(distance(left), distance(right))
    assert together < FARTHEST == distance([])


def test_the_second_remedy_keeps_the_kind_of_device() -> None:
    assert [name for name in REMEDIES if not is_alternative([name])] == [
        "select-model", "other-value", "smaller", "select-less", "less-memory", "smaller-model", "other-class",
        "constraint", "other-driver", "unselect", "unselect-hardware", "condition", "of-class", "leave-out",
    ]  # fmt: skip
    assert not is_alternative(["name", "correction"])
