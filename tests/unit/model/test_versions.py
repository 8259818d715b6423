"""Conversion between the versions of resource.k8s.io."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.decoding import decode
from allotment.model.loading import load_text
from allotment.model.versions import HUB, from_v1, to_v1

names = st.text("abcdefghij-", min_size=1, max_size=6)
selectors = st.lists(st.fixed_dictionaries({"cel": st.fixed_dictionaries({"expression": st.just("true")})}), max_size=2)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


details = {
    "selectors": selectors,
    "allocationMode": st.sampled_from(["All", "ExactCount"]),
    "count": st.integers(1, 9),
    "tolerations": st.lists(optional(key=names, operator=st.just("Exists")), max_size=2),
    "capacity": optional(requests=st.dictionaries(names, st.sampled_from(["1", "40Gi", "500m"]), max_size=2)),
}
exactly = st.fixed_dictionaries({"deviceClassName": names}, optional={**details, "adminAccess": st.booleans()})
alternatives = st.lists(st.fixed_dictionaries({"name": names, "deviceClassName": names}, optional=details), max_size=2)
requests = st.lists(
    st.fixed_dictionaries({"name": names, "exactly": exactly})
    | st.fixed_dictionaries({"name": names, "firstAvailable": alternatives}),
    max_size=3,
)
specs = st.fixed_dictionaries({"devices": st.fixed_dictionaries({"requests": requests})})
attributes = st.dictionaries(
    names,
    st.fixed_dictionaries({"string": names}) | st.fixed_dictionaries({"int": st.integers(-9, 9)}),
    min_size=1,
    max_size=2,
)
capacity = st.dictionaries(
    names, st.fixed_dictionaries({"value": st.sampled_from(["1", "40Gi"])}), min_size=1, max_size=2
)
devices = st.fixed_dictionaries(
    {"name": names},
    optional={"attributes": attributes, "capacity": capacity, "allNodes": st.just(True), "nodeName": names},
)
slices = st.fixed_dictionaries(
    {
        "driver": names,
        "pool": st.fixed_dictionaries(
            {"name": names, "generation": st.integers(0, 3), "resourceSliceCount": st.just(1)}
        ),
    },
    optional={"nodeName": names, "allNodes": st.just(True), "devices": st.lists(devices, max_size=3)},
)


def v1(kind: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": HUB, "kind": kind, "metadata": {"name": "a"}, "spec": spec}


objects = (
    specs.map(lambda spec: v1("ResourceClaim", spec))
    | specs.map(lambda spec: v1("ResourceClaimTemplate", {"spec": spec}))
    | slices.map(lambda spec: v1("ResourceSlice", spec))
    | st.just(v1("DeviceClass", {"selectors": []}))
)


@given(objects, st.sampled_from(["v1", "v1beta2", "v1beta1", "v1alpha3"]))
def test_conversion_round_trips(tree: dict[str, Any], version: str) -> None:
    before = json.dumps(tree)
    converted = from_v1(tree, f"resource.k8s.io/{version}")
    assert converted["apiVersion"] == f"resource.k8s.io/{version}"
    assert to_v1(converted) == tree
    assert json.dumps(tree) == before


@given(objects, st.sampled_from(["v1", "v1beta2", "v1beta1", "v1alpha3"]))
def test_every_version_decodes_strictly_to_the_same_value(tree: dict[str, Any], version: str) -> None:
    hub = decode(load_text(json.dumps(tree)).documents[0])
    other = decode(load_text(json.dumps(from_v1(tree, f"resource.k8s.io/{version}"))).documents[0])
    assert other.value == hub.value


def test_v1beta1_has_required_empty_fields() -> None:
    tree = v1("ResourceClaim", {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "s"}]}]}})
    (request,) = from_v1(tree, "resource.k8s.io/v1beta1")["spec"]["devices"]["requests"]
    assert request == {"name": "r", "deviceClassName": "", "firstAvailable": [{"name": "s"}]}
    tree = v1("ResourceSlice", {"devices": [{"name": "d"}]})
    assert from_v1(tree, "resource.k8s.io/v1beta1")["spec"]["devices"] == [{"name": "d", "basic": {}}]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"name": "r"}, {"name": "r"}),
        ({"name": "r", "deviceClassName": "", "count": 0, "allocationMode": ""}, {"name": "r"}),
        ({"name": "r", "count": 2}, {"name": "r", "exactly": {"count": 2}}),
        ({"name": "r", "selectors": []}, {"name": "r", "exactly": {"selectors": []}}),
        ({"name": "r", "adminAccess": False}, {"name": "r", "exactly": {"adminAccess": False}}),
        (
            {"name": "r", "deviceClassName": "", "derivedAttributes": [{"name": "d/x"}]},
            {"name": "r", "exactly": {"deviceClassName": "", "derivedAttributes": [{"name": "d/x"}]}},
        ),
        (
            {"name": "r", "deviceClassName": "c", "firstAvailable": []},
            {"name": "r", "exactly": {"deviceClassName": "c"}, "firstAvailable": []},
        ),
    ],
)
def test_any_flat_field_makes_an_exact_request(request_: dict[str, Any], expected: dict[str, Any]) -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [request_]}},
    }
    assert to_v1(tree)["spec"]["devices"]["requests"] == [expected]


def test_unset_fields_of_v1beta1_slices_are_absent() -> None:
    spec = {
        "nodeName": "",
        "allNodes": False,
        "devices": [{"name": "d", "basic": {"attributes": {}, "taints": []}}, {"name": "e"}],
    }
    tree = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "spec": spec}
    assert to_v1(tree)["spec"] == {"devices": [{"name": "d", "taints": []}, {"name": "e"}]}


def test_classic_dra_fields_of_v1alpha3_are_dropped() -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourceClaim",
        "spec": {"controller": "x", "devices": {}},
        "status": {"deallocationRequested": True, "allocation": {"controller": "x"}},
    }
    assert to_v1(tree) == {
        "apiVersion": HUB,
        "kind": "ResourceClaim",
        "spec": {"devices": {}},
        "status": {"allocation": {}},
    }


def test_taint_rules_are_equal_in_all_versions() -> None:
    rule = v1("DeviceTaintRule", {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "None"}})
    for version in ("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"):
        converted = from_v1(rule, version)
        assert (converted, to_v1(converted)) == ({**rule, "apiVersion": version}, rule)


def test_other_groups_and_kinds_without_v1_are_unchanged() -> None:
    request = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourcePoolStatusRequest", "spec": {}}
    pod = {"apiVersion": "v1", "kind": "Pod"}
    assert (to_v1(request), to_v1(pod)) == (request, pod)
    with pytest.raises(ValueError, match="is not a version of"):
        from_v1(v1("ResourceClaim", {}), "resource.k8s.io/v2")


def test_unknown_fields_round_trip() -> None:
    request = {"name": "r", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1, "novelty": {"x": [1]}}
    tree = {
        "apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "more": 1,
        "spec": {"devices": {"requests": [request], "newer": True}}, "status": {"later": {}},
    }  # fmt: skip
    assert from_v1(to_v1(tree), "resource.k8s.io/v1beta1") == tree
