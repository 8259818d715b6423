"""Edits of the tree of a document, and edits that do not fit."""

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


def test_all_edits_use_paths_of_the_original_document() -> None:
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


def test_offsets_refer_to_the_original_string() -> None:
    changes = [ReplaceText(("kind",), 0, 8, "Device"), ReplaceText(("kind",), 8, 13, "Class")]
    assert apply_edits(CLAIM, changes)["kind"] == apply_edits(CLAIM, changes[::-1])["kind"] == "DeviceClass"


def test_fields_are_added_at_the_requested_position() -> None:
    assert list(requests(SetValue(("spec", "requests", 0, "z"), 0, first=True))[0]) == ["z", "name", "class", "count"]
    assert list(requests(SetValue(("spec", "requests", 0, "z"), 0, after="name"))[0]) == ["name", "z", "class", "count"]
    assert list(requests(SetValue(("spec", "requests", 0, "z"), 0, after="none"))[0]) == ["name", "class", "count", "z"]


def test_null_is_treated_as_an_empty_mapping_or_list() -> None:
    assert apply_edits(CLAIM, [SetValue(("spec", "empty", "a"), 1)])["spec"]["empty"] == {"a": 1}
    assert apply_edits(CLAIM, [InsertItem(("spec", "empty"), 0, 1)])["spec"]["empty"] == [1]


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([Remove(("spec", "nothing"))], "spec.nothing not found"),
        ([SetValue(("spec", "nothing", "more"), 1)], "spec.nothing not found"),
        ([SetValue(("spec", "requests", 2), 1)], "spec.requests[2] not found"),
        ([SetValue((), 1)], "a document cannot be removed or replaced as a whole"),
        ([RenameKey(("spec", "source"), "requests")], "requests already exists next to spec.source"),
        ([Lift(("spec", "requests"))], "spec.requests is not a mapping"),
        ([Lift(("spec", "requests", 0))], "spec.requests[0] is a list item: it has no key and no sibling fields"),
        ([Nest(("kind",), ("a",), "b")], "kind is not a mapping"),
        ([Nest(("spec", "source"), ("a", "b"), "c")], "spec.source has no a or b"),
        ([Nest(("spec",), ("source",), "requests")], "requests already exists in spec"),
        ([SetValue(("spec", "source", "requests"), 1), Lift(("spec", "source"))], "requests already exists"),
        ([InsertItem(("spec", "source"), 0, 1)], "spec.source is not a list"),
        ([InsertItem(("spec", "requests"), 3, 1)], "spec.requests has 2 items: cannot insert one at index 3"),
        ([ReplaceText(("spec",), 0, 1, "")], "spec is not a string"),
        ([ReplaceText(("kind",), 0, 99, "")], "kind has 13 characters: cannot replace 0:99"),
        (
            [ReplaceText(("kind",), 0, 3, ""), ReplaceText(("kind",), 2, 4, "")],
            "two edits change the same part of kind",
        ),
        (
            [Remove(("spec", "requests", 0)), SetValue(("spec", "requests", 0, "name"), 1)],
            "is both removed and changed",
        ),
    ],
)
def test_edit_that_does_not_fit_is_an_error(edits: list[Edit], reason: str) -> None:
    with pytest.raises(EditError) as error:
        apply_edits(CLAIM, edits)
    assert reason in str(error.value)


@given(st.integers())
def test_input_tree_is_not_changed(seed: int) -> None:
    random = Random(seed)
    given_tree = tree(random)
    before = copy.deepcopy(given_tree)
    with suppress(EditError):
        assert apply_edits(given_tree, [edit(random, given_tree)]) is not given_tree
    assert json_equal(given_tree, before)


def test_json_equal_distinguishes_types() -> None:
    assert json_equal({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]})
    for left, right in [(1, True), (1, 1.0), ("1", 1), ([1], [1, 1]), ({"a": 1}, {"b": 1})]:
        assert not json_equal(left, right)
