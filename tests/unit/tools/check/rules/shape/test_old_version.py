"""S101: versions that a release does not serve. The fix equals the API server's conversion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.versions import from_v1, to_v1
from allotment.tools.check.rules.shape import no_such_kind, old_version, unknown_field, wrong_type
from tests.unit.tools.check.rules.shape.rule_results import claim, fixed_documents, levels_and_messages, matches_of

RULE = old_version.RULE
FLAT = "- name: gpu\n  deviceClassName: gpu.example.com"


def taint_rule(version: str) -> str:
    return (
        f"apiVersion: resource.k8s.io/{version}\nkind: DeviceTaintRule\nmetadata:\n  name: broken\n"
        "spec:\n  taint:\n    key: example.com/broken\n    effect: NoSchedule\n"
    )


def test_v1_is_current() -> None:
    assert levels_and_messages(RULE, claim("- name: gpu\n  exactly:\n    deviceClassName: gpu.example.com")) == []


@pytest.mark.parametrize(
    ("version", "level", "message"),
    [
        ("v1beta2", "warning", "resource.k8s.io/v1beta2 is not served by default and is removed in 1.39"),
        ("v1beta1", "warning", "resource.k8s.io/v1beta1 is not served by default and is removed in 1.38"),
        (
            "v1alpha3",
            "error",
            "Kubernetes 1.36 has no ResourceClaim in resource.k8s.io/v1alpha3: it was removed in 1.34",
        ),
        ("v1alpha2", "error", "resource.k8s.io/v1alpha2 has no kind ResourceClaim"),
        ("v2", "error", "resource.k8s.io/v2 has no kind ResourceClaim"),
    ],
)
def test_versions_of_claims(version: str, level: str, message: str) -> None:
    assert levels_and_messages(RULE, claim(FLAT, version=version)) == [(level, message)]


@pytest.mark.parametrize(
    ("kube", "version", "levels"),
    [
        ("1.34", "v1alpha3", []),
        ("1.35", "v1beta2", ["error"]),
        ("1.36", "v1alpha3", ["note"]),
        ("1.36", "v1beta2", []),
        ("1.36", "v1", ["error"]),
        ("1.37", "v1beta2", ["error"]),
        ("1.37", "v1", []),
    ],
)
def test_versions_of_taint_rules(kube: str, version: str, levels: list[str]) -> None:
    assert [level for level, _ in levels_and_messages(RULE, taint_rule(version), kube=kube)] == levels
    assert levels_and_messages(no_such_kind.RULE, taint_rule(version), kube=kube) == []


def test_classic_dra_is_left_to_another_rule() -> None:
    text = claim(FLAT, version="v1alpha2").replace("  devices:\n    requests:\n", "  resourceClassName: x\n#")
    assert levels_and_messages(RULE, text.partition("#")[0]) == []


def test_v1_shape_in_an_old_version_only_needs_the_version() -> None:
    text = claim("- name: gpu\n  exactly:\n    deviceClassName: gpu.example.com", version="v1beta1")
    assert levels_and_messages(unknown_field.RULE, text) == []
    assert fixed_documents(RULE, text)[0]["spec"]["devices"]["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    ]


def test_slice_of_v1alpha3() -> None:
    text = """\
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: ""
  allNodes: true
  pool: {name: a, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    basic:
      attributes: {model: {string: A}}
      capacity: {memory: 80Gi}
"""
    assert fixed_documents(RULE, text)[0] == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "a"},
        "spec": {
            "driver": "gpu.example.com",
            "allNodes": True,
            "pool": {"name": "a", "resourceSliceCount": 1},
            "devices": [
                {"name": "gpu-0", "attributes": {"model": {"string": "A"}}, "capacity": {"memory": {"value": "80Gi"}}}
            ],
        },
    }
    assert levels_and_messages(wrong_type.RULE, text) == []


def test_v1_capacities_in_v1alpha3_are_kept() -> None:
    text = """\
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    capacity: {memory: {value: 80Gi}}
"""
    assert levels_and_messages(unknown_field.RULE, text) == []
    assert fixed_documents(RULE, text)[0]["spec"]["devices"] == [
        {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}
    ]


def test_fields_of_classic_dra_are_removed() -> None:
    text = claim(FLAT, version="v1alpha3").replace("spec:\n", "spec:\n  controller: example.com\n")
    assert "controller" not in fixed_documents(RULE, text)[0]["spec"]


def test_the_fix_is_safe() -> None:
    (match,) = matches_of(RULE, claim(FLAT, version="v1beta1"))
    assert match.fix is not None
    assert match.fix.safe
    assert match.fix.text == "write resource.k8s.io/v1, and move the requests' fields under exactly"


names = st.sampled_from(["a", "b", "gpu-0"])
exactly = st.fixed_dictionaries(
    {"deviceClassName": names},
    optional={
        "selectors": st.just([{"cel": {"expression": "true"}}]),
        "allocationMode": st.sampled_from(["All", "ExactCount"]),
        "count": st.integers(1, 3),
        "adminAccess": st.booleans(),
        "tolerations": st.just([{"operator": "Exists"}]),
        "capacity": st.just({"requests": {"memory": "1Gi"}}),
    },
)
requests = st.one_of(
    st.fixed_dictionaries({"name": names, "exactly": exactly}),
    st.fixed_dictionaries({"name": names, "firstAvailable": st.just([{"name": "a", "deviceClassName": "b"}])}),
)
devices = st.fixed_dictionaries(
    {"name": names},
    optional={
        "attributes": st.dictionaries(names, st.just({"string": "x"}), min_size=1, max_size=2),
        "capacity": st.dictionaries(names, st.sampled_from([{"value": "1Gi"}, {"value": "2"}]), min_size=1, max_size=2),
        "allNodes": st.booleans(),
    },
)
claims = st.fixed_dictionaries(
    {
        "kind": st.just("ResourceClaim"),
        "metadata": st.just({"name": "x"}),
        "spec": st.fixed_dictionaries({"devices": st.fixed_dictionaries({"requests": st.lists(requests, max_size=3)})}),
    }
)
slices = st.fixed_dictionaries(
    {
        "kind": st.just("ResourceSlice"),
        "metadata": st.just({"name": "x"}),
        "spec": st.fixed_dictionaries(
            {"driver": names, "pool": st.just({"name": "p"}), "devices": st.lists(devices, min_size=1, max_size=3)},
            optional={"nodeName": st.sampled_from(["", "n"]), "allNodes": st.booleans()},
        ),
    }
)


@given(st.one_of(claims, slices), st.sampled_from(["v1beta1", "v1alpha3"]))
def test_fix_equals_the_api_servers_conversion(tree: dict[str, Any], version: str) -> None:
    written = from_v1({"apiVersion": "resource.k8s.io/v1", **tree}, f"resource.k8s.io/{version}")
    assert fixed_documents(RULE, json.dumps(written)) == [to_v1(written)]
