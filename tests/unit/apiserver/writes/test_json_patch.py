"""JSON patches: the operations, the leniencies, the bounds."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.writes.json_patch import MAX_OPERATIONS, apply_json_patch, unknown_fields
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree


def op(name: str, path: str, **rest: Any) -> Tree:
    return {"op": name, "path": path, **rest}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([op("add", "/b", value=2)], {"a": {"x": [1, 2, 3]}, "b": 2}),
        ([op("add", "/a/x/1", value=9)], {"a": {"x": [1, 9, 2, 3]}}),
        ([op("add", "/a/x/-", value=9)], {"a": {"x": [1, 2, 3, 9]}}),
        ([op("add", "/a/x/-1", value=9)], {"a": {"x": [1, 2, 3, 9]}}),
        ([op("remove", "/a/x/-1")], {"a": {"x": [1, 2]}}),
        ([op("replace", "/a/missing", value=1)], {"a": {"x": [1, 2, 3], "missing": 1}}),
        ([op("replace", "", value={"z": 1})], {"z": 1}),
        ([op("move", "/b", **{"from": "/a/x"})], {"a": {}, "b": [1, 2, 3]}),
        ([op("copy", "/b", **{"from": "/a/x"}), op("remove", "/b/0")], {"a": {"x": [1, 2, 3]}, "b": [2, 3]}),
        ([op("test", "/a/x", value=[1, 2, 3]), op("test", "/nothing", value=None)], {"a": {"x": [1, 2, 3]}}),
        ([op("add", "/a~1b~0c", value=1)], {"a": {"x": [1, 2, 3]}, "a/b~c": 1}),
        ([op("add", "/nil")], {"a": {"x": [1, 2, 3]}, "nil": None}),
    ],
)
def test_operations(operations: list[Tree], expected: Tree) -> None:
    tree = {"a": {"x": [1, 2, 3]}}
    assert apply_json_patch(tree, operations) == expected
    assert tree == {"a": {"x": [1, 2, 3]}}


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "", value={}),
        op("add", "/a/x/9", value=1),
        op("add", "/no/where", value=1),
        op("remove", "/missing"),
        op("remove", "/a/x/3"),
        op("remove", "/a/x/one"),
        op("replace", "/a/x/3", value=1),
        op("replace", "", value=1),
        op("test", "/a/x/0", value=1.0),
        op("test", "/a/x/0", value=True),
        op("dance", "/a"),
        {"path": "/a"},
        {"op": "add"},
        None,
    ],
)
def test_an_inapplicable_operation_is_rejected_without_a_reason(operation: Any) -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch({"a": {"x": [1, 2, 3]}}, [operation])
    assert refused.value.status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({}, "object into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_a_body_of_another_form_is_a_bad_request(body: Any, wanted: str) -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch({}, body)
    assert refused.value.code == 400
    assert refused.value.status["message"] == f"error decoding patch: json: cannot unmarshal {wanted}"


def test_the_size_of_a_patch_is_limited() -> None:
    with pytest.raises(StatusError) as refused:
        apply_json_patch({}, [op("add", "/a", value=1)] * (MAX_OPERATIONS + 1))
    assert refused.value.code == 413
    doubling = [op("copy", "/a/-", **{"from": "/a"}) for _ in range(40)]
    with pytest.raises(StatusError) as refused:
        apply_json_patch({"a": ["x" * 1000]}, doubling)
    assert refused.value.code == 422


def test_unknown_fields_are_reported() -> None:
    assert unknown_fields([op("add", "/a"), op("add", "/b", colour=1)]) == ['json patch unknown field "[1].colour"']


VALUES = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TREES = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)
POINTERS = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-", "-1"]), min_size=1, max_size=3).map(
    lambda parts: "/" + "/".join(parts)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy"]), "path": POINTERS, "from": POINTERS},
    optional={"value": VALUES},
)


@given(TREES, st.lists(OPERATIONS, max_size=6))
def test_arguments_are_not_modified(tree: Tree, operations: list[Tree]) -> None:
    before = copy.deepcopy((tree, operations))
    with contextlib.suppress(StatusError):
        apply_json_patch(tree, operations)
    assert (tree, operations) == before


@given(TREES, st.sampled_from("abc"), VALUES)
def test_an_added_value_can_be_moved_and_moved_back(tree: Tree, name: str, value: Any) -> None:
    operations = [
        op("add", f"/{name}", value=value),
        op("move", "/other", **{"from": f"/{name}"}),
        op("move", f"/{name}", **{"from": "/other"}),
    ]
    assert apply_json_patch(tree, operations) == {**tree, name: value}


def test_null_is_a_patch_without_operations() -> None:
    assert apply_json_patch({"a": 1}, None) == {"a": 1}
