"""Merge patches: what RFC 7386 says, and what stays the same value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.writes.merge_patch import apply_merge_patch
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
PATCHES = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


def without_nulls(tree: Tree) -> Tree:
    return apply_merge_patch({}, tree)


TREES = PATCHES.map(without_nulls)


@pytest.mark.parametrize(
    ("tree", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "c": 1}, {"a": None}, {"c": 1}),
        ({"a": ["b"]}, {"a": ["c"]}, {"a": ["c"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": {"b": "c"}}, {"a": [1]}, {"a": [1]}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
        ({"a": "b"}, {"missing": None}, {"a": "b"}),
    ],
)
def test_nulls_remove_maps_merge_other_values_replace(tree: Tree, patch: Tree, expected: Tree) -> None:
    assert apply_merge_patch(tree, patch) == expected


def test_a_patch_must_be_an_object() -> None:
    for body, word in (([], "array"), ("a", "string"), (1, "number"), (True, "bool")):
        with pytest.raises(StatusError, match=f"cannot unmarshal {word}"):
            apply_merge_patch({}, body)
    with pytest.raises(StatusError, match="Invalid JSON Patch"):
        apply_merge_patch({}, None)


@given(TREES, PATCHES)
def test_applying_a_patch_twice_returns_the_same_object(tree: Tree, patch: Tree) -> None:
    once = apply_merge_patch(tree, patch)
    assert apply_merge_patch(once, patch) == once
    assert apply_merge_patch(once, {}) is once


@given(TREES, PATCHES)
def test_unpatched_values_are_the_same_objects(tree: Tree, patch: Tree) -> None:
    patched = apply_merge_patch(tree, patch)
    assert all(patched[name] is tree[name] for name in tree if name not in patch)
