"""S107: kinds that do not exist."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.shape import fragment, no_such_kind, unknown_field
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.shape.rule_results import fixed_documents, levels_and_messages, matches_of

RULE = no_such_kind.RULE


def manifest(version: str, kind: str, spec: str = "{}") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"


def test_misspelled_kind() -> None:
    text = manifest("resource.k8s.io/v1", "ResourceClaims")
    assert levels_and_messages(RULE, text) == [("error", "resource.k8s.io/v1 has no kind ResourceClaims")]
    assert fixed_documents(RULE, text)[0]["kind"] == "ResourceClaim"


@pytest.mark.parametrize(
    ("version", "kind", "expected"),
    [
        ("v1", "ResourceClaim", "resource.k8s.io/v1"),
        ("v1", "Deployment", "apps/v1"),
        ("apps/v1beta1", "Deployment", "apps/v1"),
        ("apps/v1", "Pod", "v1"),
    ],
)
def test_kind_of_another_group(version: str, kind: str, expected: str) -> None:
    text = manifest(version, kind)
    assert fixed_documents(RULE, text)[0]["apiVersion"] == expected
    (match,) = matches_of(RULE, text)
    assert match.path == ("apiVersion",)
    assert match.fix is not None
    assert not match.fix.safe


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("resource.k8s.io/v1alpha2", "ResourceClass", "{}"),
        ("resource.k8s.io/v1alpha3", "PodSchedulingContext", "{}"),
        ("resource.k8s.io/v1alpha2", "ResourceClaim", "{resourceClassName: gpu.nvidia.com}"),
        ("resource.k8s.io/v1alpha2", "ResourceClaimTemplate", "{spec: {resourceClassName: gpu.nvidia.com}}"),
        ("gpu.resource.nvidia.com/v1alpha1", "GpuClaimParameters", "{count: 1}"),
        ("gpu.resource.example.com/v1alpha1", "GpuClassParameters", "{}"),
    ],
)
def test_classic_dra(version: str, kind: str, spec: str) -> None:
    text = manifest(version, kind, spec)
    assert levels_and_messages(RULE, text) == [
        ("error", f"{kind} in {version} is part of classic DRA, which was removed in Kubernetes 1.32")
    ]
    (match,) = matches_of(RULE, text)
    assert match.help
    assert match.fix is None
    assert levels_and_messages(unknown_field.RULE, text) == []


def test_custom_kinds_are_assumed_to_exist() -> None:
    assert levels_and_messages(RULE, manifest("resource.nvidia.com/v1beta1", "ComputeDomain")) == []


def test_object_without_api_version() -> None:
    text = "kind: Pod\nmetadata: {name: a}\nspec: {}\n"
    assert [level for level, _ in levels_and_messages(RULE, text)] == ["warning"]
    assert list(fixed_documents(RULE, text)[0]) == ["apiVersion", "kind", "metadata", "spec"]
    assert fixed_documents(RULE, text)[0]["apiVersion"] == "v1"
    assert levels_and_messages(fragment.RULE, text) == []


def test_classic_dra_field_in_any_version() -> None:
    text = "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n"
    text += "  resourceClassName: gpu.example.com\n  allocationMode: WaitForFirstConsumer\n"
    assert levels_and_messages(RULE, text) == [
        ("error", "resourceClassName is part of classic DRA, which was removed in Kubernetes 1.32")
    ]
    assert [finding.code for finding in check(bundle_of(text))] == ["S107"]


def test_vendor_specific_parameters_of_classic_dra() -> None:
    text = "apiVersion: gpu.nvidia.com/v1\nkind: GpuClaimParameters\nmetadata: {name: a}\nspec: {count: 1}\n"
    assert [level for level, _ in levels_and_messages(RULE, text)] == ["error"]
    assert levels_and_messages(RULE, text.replace("gpu.nvidia.com", "shop.example.com")) == []
