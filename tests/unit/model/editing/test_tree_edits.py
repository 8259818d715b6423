"""What edits mean for the tree of a document, and which do not fit it."""

from __future__ import annotations

import copy
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.editing.edits import (
    Edit,
    EditError,
    InsertItem,
    Lift,
    Nest,
    Remove,
    RenameKey,
    ReplaceText,
    SetValue,
)
from allotment.model.editing.tree_edits import apply_edits, json_equal
from tests.unit.model.editing.manifests import edit, tree

CLAIM: dict[str, Any] = {
    "kind": "ResourceClaim",
    "spec": {"requests": [{"name": "a", "class": "x", "count": 1}, {"name": "b"}], "source": {"z": 1}, "empty": None},
}


def requests(*edits: Edit) -> Any:
    return apply_edits(CLAIM, edits)["spec"]["requests"]


def test_several_edits_have_the_paths_of_the_document_as_it_is_written() -> None:
    path = ("spec", "requests")
    assert requests(
        Nest((*path, 0), ("class", "count"), "exactly"),
        SetValue((*path, 0, "count"), 2),
        SetValue((*path, 0, "exactly", "mode"), "All", after="class"),
        InsertItem(path, 0, "first"),
        InsertItem(path, 0, "second"),
        RenameKey((*path, 1, "name"), "title"),
        SetValue((*path, 1, "name"), "c"),
        Remove((*path, 0, "name")),
    ) == ["first", "second", {"exactly": {"class": "x", "mode": "All", "count": 2}}, {"title": "c"}]
    assert requests(Remove((*path, 0)), SetValue((*path, 1, "name"), "c"), InsertItem(path, 1, 0)) == [0, {"name": "c"}]


def test_changes_of_one_string_count_from_the_string_as_it_is_written() -> None:
    changes = [ReplaceText(("kind",), 0, 8, "Device"), ReplaceText(("kind",), 8, 13, "Class")]
    assert apply_edits(CLAIM, changes)["kind"] == apply_edits(CLAIM, changes[::-1])["kind"] == "DeviceClass"


def test_fields_come_where_they_are_wanted() -> None:
    assert list(requests(SetValue(("spec", "requests", 0, "z"), 0, first=True))[0]) == ["z", "name", "class", "count"]
    assert list(requests(SetValue(("spec", "requests", 0, "z"), 0, after="name"))[0]) == ["name", "z", "class", "count"]
    assert list(requests(SetValue(("spec", "requests", 0, "z"), 0, after="none"))[0]) == ["name", "class", "count", "z"]


def test_null_is_an_empty_mapping_or_list() -> None:
    assert apply_edits(CLAIM, [SetValue(("spec", "empty", "a"), 1)])["spec"]["empty"] == {"a": 1}
    assert apply_edits(CLAIM, [InsertItem(("spec", "empty"), 0, 1)])["spec"]["empty"] == [1]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([Remove(("spec", "nothing"))], "there is no spec.nothing"),
        ([SetValue(("spec", "nothing", "more"), 1)], "there is no spec.nothing"),
        ([SetValue(("spec", "requests", 2), 1)], "there is no spec.requests[2]"),
        ([SetValue((), 1)], "a document cannot be removed or replaced as a whole"),
        ([RenameKey(("spec", "source"), "requests")], "requests is there already, beside spec.source"),
        ([Lift(("spec", "requests"))], "spec.requests is no mapping"),
        (
            [Lift(("spec", "requests", 0))],
            "spec.requests[0] is an item of a list: it has no name, and no fields around it",
        ),
        ([Nest(("kind",), ("a",), "b")], "kind is no mapping"),
        ([Nest(("spec", "source"), ("a", "b"), "c")], "spec.source has no a or b"),
        ([Nest(("spec",), ("source",), "requests")], "requests is there already, in spec"),
        ([SetValue(("spec", "source", "requests"), 1), Lift(("spec", "source"))], "requests is there already"),
        ([InsertItem(("spec", "source"), 0, 1)], "spec.source is no list"),
        ([InsertItem(("spec", "requests"), 3, 1)], "spec.requests has 2 items, none can become number 3"),
        ([ReplaceText(("spec",), 0, 1, "")], "spec is no string"),
        ([ReplaceText(("kind",), 0, 99, "")], "kind is a string of 13 characters, not of 99"),
        ([ReplaceText(("kind",), 0, 3, ""), ReplaceText(("kind",), 2, 4, "")], "two changes of the same part of kind"),
        (
            [Remove(("spec", "requests", 0)), SetValue(("spec", "requests", 0, "name"), 1)],
            "removed and changed at once",
        ),
    ],
)
def test_what_does_not_fit_is_refused(edits: list[Edit], reason: str) -> None:
    with pytest.raises(EditError) as error:
        apply_edits(CLAIM, edits)
    assert reason in str(error.value)


@given(st.integers())
def test_the_given_tree_never_changes(seed: int) -> None:
    random = Random(seed)
    given_tree = tree(random)
    before = copy.deepcopy(given_tree)
    with suppress(EditError):
        assert apply_edits(given_tree, [edit(random, given_tree)]) is not given_tree
    assert json_equal(given_tree, before)


def test_one_and_true_are_two_values() -> None:
    assert json_equal({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
    for one, other in [(1, True), (1, 1.0), ("1", 1), ([1], [1, 1]), ({"a": 1}, {"b": 1})]:
        assert not json_equal(one, other)
