"""Patches for v1 that are converted to older versions have the same effect there."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.trees import Tree
from allotment.model.versions import HUB, from_v1, patch_from_v1, to_v1

OLD = "resource.k8s.io/v1beta1"


def request(name: str, **more: Any) -> Tree:
    return {"name": name, "exactly": {"deviceClassName": "c", **more}}


def claim(*requests: Tree) -> Tree:
    return {"apiVersion": HUB, "kind": "ResourceClaim", "metadata": {"name": "a"},
            "spec": {"devices": {"requests": list(requests)}}}  # fmt: skip


def apply_operation(tree: Any, operation: Tree) -> Any:
    """Apply a JSON patch of one operation; supports the part of RFC 6902 that these tests use."""
    result = copy.deepcopy(tree)
    *names, last = operation["path"].split("/")[1:]
    parent = result
    for name in names:
        parent = parent[int(name) if isinstance(parent, list) else name]
    key: Any = int(last) if isinstance(parent, list) and last != "-" else last
    match operation["op"]:
        case "remove":
            del parent[key]
        case "add" if isinstance(parent, list):
            parent.insert(len(parent) if key == "-" else key, operation["value"])
        case _:
            parent[key] = operation["value"]
    return result


values: dict[str, st.SearchStrategy[Any]] = {
    "/spec/devices/requests/0/exactly/count": st.integers(1, 9),
    "/spec/devices/requests/0/exactly/selectors": st.just([{"cel": {"expression": "true"}}]),
    "/spec/devices/requests/0": st.integers(1, 9).map(lambda count: request("r", count=count)),
    "/spec/devices/requests/-": st.integers(1, 9).map(lambda count: request("s", count=count)),
    "/spec/devices/requests": st.lists(st.sampled_from("xyz").map(request), max_size=3),
    "/spec/devices": st.just({"requests": [request("z")], "config": []}),
    "/spec": st.just({"devices": {"requests": [request("z", adminAccess=True)]}}),
    "/metadata/labels": st.just({"a": "b"}),
    "/status": st.just({"reservedFor": []}),
}
operations = st.sampled_from(sorted(values)).flatmap(
    lambda path: st.fixed_dictionaries({"op": st.just("add"), "path": st.just(path), "value": values[path]})
)


@given(operations)
def test_converted_json_patch_has_the_same_effect(operation: Tree) -> None:
    tree = claim(request("r", count=1))
    before = json.dumps(operation)
    (converted,) = patch_from_v1([operation], "ResourceClaim", OLD)
    assert to_v1(apply_operation(from_v1(tree, OLD), converted)) == apply_operation(tree, operation)
    assert json.dumps(operation) == before


@given(st.sampled_from(["/spec/devices/0/attributes", "/spec/devices/0", "/spec/devices/-", "/spec/devices"]))
def test_converted_json_patch_of_a_slice_has_the_same_effect(path: str) -> None:
    device = {"name": "d", "attributes": {"a": {"int": 1}}}
    tree = {"apiVersion": HUB, "kind": "ResourceSlice", "spec": {"driver": "x", "devices": [device]}}
    new = {"name": "e", "attributes": {"b": {"bool": True}}}
    value: Any = {"b": {"bool": True}} if path.endswith("attributes") else [new] if path.endswith("s") else new
    operation = {"op": "replace" if path[-1] != "-" else "add", "path": path, "value": value}
    (converted,) = patch_from_v1([operation], "ResourceSlice", OLD)
    assert to_v1(apply_operation(from_v1(tree, OLD), converted)) == apply_operation(tree, operation)


def test_paths_of_test_move_copy_and_remove_are_converted() -> None:
    count = "/spec/devices/requests/0/exactly/count"
    operations = [
        {"op": "test", "path": "/spec/devices/requests/0/name", "value": "r"},
        {"op": "move", "from": count, "path": "/metadata/annotations/count"},
        {"op": "copy", "from": count, "path": "/spec/devices/requests/1/exactly/count"},
        {"op": "remove", "path": "/spec/devices/requests/0/firstAvailable/1"},
    ]  # fmt: skip
    converted = patch_from_v1(operations, "ResourceClaim", OLD)
    assert [(operation.get("from"), operation["path"]) for operation in converted] == [
        (None, "/spec/devices/requests/0/name"),
        ("/spec/devices/requests/0/count", "/metadata/annotations/count"),
        ("/spec/devices/requests/0/count", "/spec/devices/requests/1/count"),
        (None, "/spec/devices/requests/0/firstAvailable/1"),
    ]


def test_operation_without_a_single_path_is_an_error() -> None:
    operation = {"op": "add", "path": "/spec/devices/requests/0/exactly", "value": {"deviceClassName": "c"}}
    with pytest.raises(ValueError, match=r"requests/0/exactly: before v1beta2 these fields are not nested"):
        patch_from_v1([operation], "ResourceClaim", OLD)
    assert patch_from_v1([operation], "ResourceClaim", "resource.k8s.io/v1beta2") == [operation]


def test_merge_patches_stay_partial() -> None:
    patch = {"metadata": {"labels": {"a": None}}, "status": {"reservedFor": None}}
    assert patch_from_v1(patch, "ResourceClaim", OLD) == patch
    patch = {"spec": {"devices": {"requests": [request("r")], "constraints": None}}}
    assert patch_from_v1(patch, "ResourceClaim", OLD) == {
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}], "constraints": None}}
    }
    partial = {"apiVersion": HUB, "kind": "ResourceClaimTemplate", "spec": {"spec": claim(request("r"))["spec"]}}
    converted = patch_from_v1(partial, "ResourceClaimTemplate", OLD)
    assert (converted["apiVersion"], converted["kind"]) == (OLD, "ResourceClaimTemplate")
    assert converted["spec"]["spec"]["devices"]["requests"] == [{"name": "r", "deviceClassName": "c"}]
    patch = {"spec": {"allNodes": False, "nodeName": "", "devices": [{"name": "d"}]}}
    assert patch_from_v1(patch, "ResourceSlice", OLD) == {
        "spec": {"allNodes": False, "nodeName": "", "devices": [{"name": "d", "basic": {}}]}
    }
    assert patch_from_v1({"spec": None}, "ResourceSlice", OLD) == {"spec": None}
