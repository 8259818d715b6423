"""Declared rules: what they check, in which order they join other errors, and what an update leaves unchecked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.features import Features
from allotment.model.releases import RELEASES
from allotment.model.trees import Tree
from allotment.model.validation import declarative
from allotment.model.validation.declarative import DeclaredError, declared_errors, merged
from allotment.model.validation.declared_formats import FORMATS
from allotment.model.validation.errors import FieldError, invalid, required
from tests.unit.model.validation.validating import all_on, texts

GROUP = "resource.k8s.io"
FEATURES = all_on("1.37")


def found(
    spec: Tree, old: Tree | None = None, kind: str = "ResourceClaim", version: str = "v1", **part: Any
) -> list[str]:
    new, before = (
        {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "x"}, "spec": each} | part
        for each in (spec, old)
    )
    errors = declared_errors(new, None if old is None else before, FEATURES)
    return texts(error for error, _ in errors)


def claim(**devices: Any) -> Tree:
    return {"devices": devices}


def exactly(**fields: Any) -> Tree:
    return claim(requests=[{"name": "r", "exactly": {"deviceClassName": "c"} | fields}])


def test_rules_that_are_beta_are_enforced_by_their_gate() -> None:
    """Kubernetes' code checks the same; without the gate, its errors are reported instead."""
    tree: Tree = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "spec": exactly(allocationMode="Some")}
    off = replace(FEATURES, gates={**FEATURES.gates, "DeclarativeValidationBeta": False})
    assert any(beta for _, beta in declared_errors(tree, None, FEATURES))
    assert declared_errors(tree, None, off) == []


# --- rules -----------------------------------------------------------------------------------------------------------


def test_lists_are_limited_and_their_items_not_checked_beyond_the_limit() -> None:
    bad = {"name": "r", "exactly": {"allocationMode": "Some"}}
    assert found(claim(requests=[bad | {"name": f"r{index}"} for index in range(33)])) == [
        "spec.devices.requests: Too many: 33: must have at most 32 items"
    ]


def test_keys_are_unique_and_the_message_shows_the_item() -> None:
    twice = [{"name": "r", "exactly": {"deviceClassName": "c"}}] * 2
    assert found(claim(requests=twice)) == [
        'spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"c"}}'
    ]


def test_values_are_among_the_declared_ones() -> None:
    assert found(exactly(allocationMode="Some")) == [
        (
            'spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", '
            '"ExactCount"'
        )
    ]


def test_a_missing_value_stops_the_other_rules_of_its_field() -> None:
    result = {"request": "r", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}}
    assert found({}, {}, status=status) == [], "an unchanged status is not checked"
    new = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "spec": {}, "status": status}
    errors = declared_errors(new, new | {"status": {}}, FEATURES)
    assert texts(error for error, _ in errors) == ["status.allocation.devices.results[0].driver: Required value"]


def test_a_long_name_is_measured_in_characters() -> None:
    long = "x" * 64
    (text,) = found({"config": [{"opaque": {"driver": long, "parameters": {}}}]}, kind="DeviceClass")
    assert text == "spec.config[0].opaque.driver: Too long: may not be more than 63 characters"


@pytest.mark.parametrize("gate", [False, True])
def test_rules_can_depend_on_a_gate(gate: bool) -> None:
    features = Features("1.37", {"DRAPartitionableDevices": True, "DRAPartitionableDevicesType": gate})
    tree = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceSlice", "spec": {"partitionTypeAttribute": "x"}}
    (error,) = texts(error for error, _ in declared_errors(tree, None, features))
    expected = 'Invalid value: "x": a fully qualified name must' if gate else "Forbidden"
    assert error.startswith(f"spec.partitionTypeAttribute: {expected}")


@pytest.mark.parametrize(
    ("name", "valid", "invalid_texts"),
    [
        ("ShortName", "a-1", {"A": "a lowercase RFC 1123 label", "a.b": "must not contain dots"}),
        ("LongName", "a.b", {"A.b": "a lowercase RFC 1123 subdomain"}),
        ("LongNameCaseless", "A.b", {"a_b": "an RFC 1123 subdomain"}),
        ("LabelKey", "a.b/C", {"/c": "prefix part must be non-empty"}),
        ("UUID", "8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10", {"8D0C4DDB-1C6A-4F3E-9B39-6D7A3C0C1D10": "must be a lower"}),
        ("ResourcePoolName", "a/b.c", {"a//b": "segment 1: must not be empty", "a/B": "segment 1: a lowercase"}),
        (
            "ExtendedResourceName",
            "a.b/c",
            {
                "cpu": "a name must be a domain-prefixed path",
                "kubernetes.io/x": 'must not have "kubernetes.io/" domain',
                "requests.a/b": 'must not have "requests." prefix',
            },
        ),
        (
            "ResourceFullyQualifiedName",
            "a.b/c_1",
            {
                "c": "a fully qualified name must be a domain",
                "/c": "prefix must not be empty",
                "a/": "name must not be empty",
                "A/c": "prefix: a lowercase RFC 1123 subdomain",
                "a/1": "a valid C identifier",
            },
        ),
    ],
)
def test_formats(name: str, valid: str, invalid_texts: Mapping[str, str]) -> None:
    check = FORMATS[name]
    assert list(check(valid, "p")) == []
    for text, expected in invalid_texts.items():
        assert any(error.detail.startswith(expected) for error in check(text, "p")), text


# --- updates ---------------------------------------------------------------------------------------------------------


def test_only_changed_parts_of_an_update_are_checked() -> None:
    bad = {"effect": "Explode", "key": "k"}
    device = {"name": "d0", "taints": [bad]}
    assert found({"devices": [device]}, {"devices": [device]}, "ResourceSlice") == []
    # Devices have no key, so a change of one is a change of all.
    (text,) = found({"devices": [device, {"name": "d1"}]}, {"devices": [device]}, "ResourceSlice")
    assert text.startswith("spec.devices[0].taints[0].effect: Unsupported value")


def test_items_are_found_by_their_key() -> None:
    bad = {"name": "s", "counters": {"A": {"value": "1"}}}
    other = {"name": "t", "counters": {"a": {"value": "1"}}}
    assert found({"sharedCounters": [other, bad]}, {"sharedCounters": [bad]}, "ResourceSlice") == []
    changed = bad | {"counters": {"A": {"value": "1"}, "B": {"value": "1"}}}
    (text,) = found({"sharedCounters": [changed]}, {"sharedCounters": [bad]}, "ResourceSlice")
    assert text.startswith('spec.sharedCounters[0].counters: Invalid value: "B"'), "a stored key is not checked again"


def test_a_spec_is_immutable_and_an_allocation_cannot_be_changed() -> None:
    assert found(exactly(count=1), exactly(count=2)) == ["spec: Invalid value: null: field is immutable"]
    new, old = ({"allocation": {"devices": {"results": [{"request": name}]}}} for name in "ab")
    tree = {"apiVersion": f"{GROUP}/v1", "kind": "ResourceClaim", "spec": {}}
    errors = declared_errors(tree | {"status": new}, tree | {"status": old}, FEATURES)
    assert texts(error for error, _ in errors) == [
        "status.allocation: Invalid value: null: field cannot be modified once set"
    ]
    assert declared_errors(tree | {"status": {}}, tree | {"status": old}, FEATURES) == []


# --- joining ---------------------------------------------------------------------------------------------------------


def beta(error: FieldError) -> DeclaredError:
    return DeclaredError(error, beta=True)


def test_declared_errors_come_last_and_replace_those_of_the_code() -> None:
    coded = [required("a"), invalid("b", 1, "by code"), required("c")]
    assert merged(coded, [beta(invalid("b", 2, "declared"))]) == [
        required("a"), required("c"), invalid("b", 2, "declared"),
    ]  # fmt: skip


def test_errors_of_another_type_or_of_stable_rules_replace_none() -> None:
    coded = [invalid("b", 1, "by code")]
    for declared in (beta(required("b")), DeclaredError(invalid("b", 2, "declared"), beta=False)):
        assert merged(coded, [declared]) == [*coded, declared.error]


def test_paths_of_v1beta1_are_those_of_v1() -> None:
    coded = [
        required("spec.spec.devices.requests[1].exactly.tolerations[0].operator"),
        required("spec.devices[0].taints"),
    ]
    declared = [
        beta(required("spec.spec.devices.requests[1].tolerations[0].operator")),
        beta(required("spec.devices[0].basic.taints")),
    ]
    assert merged(coded, declared) == [error for error, _ in declared]


@given(st.lists(st.sampled_from("abc")), st.lists(st.tuples(st.sampled_from("abc"), st.booleans())))
def test_no_path_is_lost_when_errors_are_joined(coded: list[str], declared: list[tuple[str, bool]]) -> None:
    joined = merged(map(required, coded), [DeclaredError(required(path), is_beta) for path, is_beta in declared])
    assert {error.path for error in joined} == {*coded, *(path for path, _ in declared)}


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kube", [kube for kube in RELEASES if Features(kube).since("1.36")])
def test_every_release_since_1_36_has_a_table_whose_rules_are_known(kube: str) -> None:
    assert declarative._table(kube)
    for version in declarative._table(kube):
        assert declarative._types(kube, version)


@pytest.mark.parametrize(
    ("kube", "kind", "version", "expected"),
    [
        ("1.36", "ResourceClaim", "v1", False),
        ("1.36", "ResourcePoolStatusRequest", "v1alpha3", True),
        ("1.37", "ResourceClaim", "v1beta1", True),
        ("1.37", "DeviceTaintRule", "v1", True),
        ("1.35", "ResourceClaim", "v1", False),
    ],
)
def test_kinds_with_declared_rules(kube: str, kind: str, version: str, expected: bool) -> None:
    assert declarative.is_declared(f"{GROUP}/{version}", kind, Features(kube)) is expected
