"""Patches written for v1, for objects of older versions: what they do there is what they would have done."""

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


def applied(tree: Any, operation: Tree) -> Any:
    """What a JSON patch of one operation makes of a tree; enough of RFC 6902 for these tests."""
    result = copy.deepcopy(tree)
    *names, last = operation["path"].split("/")[1:]
    place = result
    for name in names:
        place = place[int(name) if isinstance(place, list) else name]
    key: Any = int(last) if isinstance(place, list) and last != "-" else last
    match operation["op"]:
        case "remove":
            del place[key]
        case "add" if isinstance(place, list):
            place.insert(len(place) if key == "-" else key, operation["value"])
        case _:
            place[key] = operation["value"]
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
def test_a_json_patch_does_there_what_it_does_here(operation: Tree) -> None:
    tree = claim(request("r", count=1))
    before = json.dumps(operation)
    (converted,) = patch_from_v1([operation], "ResourceClaim", OLD)
    assert to_v1(applied(from_v1(tree, OLD), converted)) == applied(tree, operation)
    assert json.dumps(operation) == before


@given(st.sampled_from(["/spec/devices/0/attributes", "/spec/devices/0", "/spec/devices/-", "/spec/devices"]))
def test_a_json_patch_of_a_slice(path: str) -> None:
    device = {"name": "d", "attributes": {"a": {"int": 1}}}
    tree = {"apiVersion": HUB, "kind": "ResourceSlice", "spec": {"driver": "x", "devices": [device]}}
    new = {"name": "e", "attributes": {"b": {"bool": True}}}
    value: Any = {"b": {"bool": True}} if path.endswith("attributes") else [new] if path.endswith("s") else new
    operation = {"op": "replace" if path[-1] != "-" else "add", "path": path, "value": value}
    (converted,) = patch_from_v1([operation], "ResourceSlice", OLD)
    assert to_v1(applied(from_v1(tree, OLD), converted)) == applied(tree, operation)


def test_names_of_places_that_are_asked_about_or_moved() -> None:
    count = "/spec/devices/requests/0/exactly/count"
    operations = [
        {"op": "test", "path": "/spec/devices/requests/0/name", "value": "r"},
        {"op": "move", "from": count, "path": "/metadata/annotations/count"},
        {"op": "copy", "from": count, "path": "/spec/devices/requests/1/exactly/count"},
        {"op": "remove", "path": "/spec/devices/requests/0/firstAvailable/1"},
    ]  # fmt: skip
    converted = patch_from_v1(operations, "ResourceClaim", OLD)
    assert [(one.get("from"), one["path"]) for one in converted] == [
        (None, "/spec/devices/requests/0/name"),
        ("/spec/devices/requests/0/count", "/metadata/annotations/count"),
        ("/spec/devices/requests/0/count", "/spec/devices/requests/1/count"),
        (None, "/spec/devices/requests/0/firstAvailable/1"),
    ]


def test_what_has_no_single_place_there_is_refused() -> None:
    operation = {"op": "add", "path": "/spec/devices/requests/0/exactly", "value": {"deviceClassName": "c"}}
    with pytest.raises(ValueError, match=r"requests/0/exactly: before v1beta2 these fields have no place of their own"):
        patch_from_v1([operation], "ResourceClaim", OLD)
    assert patch_from_v1([operation], "ResourceClaim", "resource.k8s.io/v1beta2") == [operation]


def test_parts_of_objects_stay_parts() -> None:
    patch = {"metadata": {"labels": {"a": None}}, "status": {"reservedFor": None}}
    assert patch_from_v1(patch, "ResourceClaim", OLD) == patch
    patch = {"spec": {"devices": {"requests": [request("r")], "constraints": None}}}
    assert patch_from_v1(patch, "ResourceClaim", OLD) == {
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}], "constraints": None}}
    }
    applied = {"apiVersion": HUB, "kind": "ResourceClaimTemplate", "spec": {"spec": claim(request("r"))["spec"]}}
    converted = patch_from_v1(applied, "ResourceClaimTemplate", OLD)
    assert (converted["apiVersion"], converted["kind"]) == (OLD, "ResourceClaimTemplate")
    assert converted["spec"]["spec"]["devices"]["requests"] == [{"name": "r", "deviceClassName": "c"}]
    patch = {"spec": {"allNodes": False, "nodeName": "", "devices": [{"name": "d"}]}}
    assert patch_from_v1(patch, "ResourceSlice", OLD) == {
        "spec": {"allNodes": False, "nodeName": "", "devices": [{"name": "d", "basic": {}}]}
    }
    assert patch_from_v1({"spec": None}, "ResourceSlice", OLD) == {"spec": None}
