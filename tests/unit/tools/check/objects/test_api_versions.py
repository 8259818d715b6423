"""The versions of kinds, derived from the release tables."""

from __future__ import annotations

import pytest

from allotment.model.loading import Document, load_text
from allotment.model.releases import RELEASES, release_table
from allotment.tools.check.objects.api_versions import (
    GROUPS,
    VERSIONS,
    VersionLifetime,
    is_served_by_default,
    newest_version,
)


def document(group: str, kind: str) -> Document:
    return load_text(f"apiVersion: {group}/v0\nkind: {kind}\n").documents[0]


def test_lifetimes_of_claims_begin_before_the_oldest_table() -> None:
    assert VERSIONS["resource.k8s.io", "ResourceClaim"] == {
        "v1alpha3": VersionLifetime("1.31", "1.34"),
        "v1beta1": VersionLifetime("1.32", "1.38"),
        "v1beta2": VersionLifetime("1.33", "1.39"),
        "v1": VersionLifetime("1.34"),
    }


def test_lifetimes_of_groups_end_where_a_table_no_longer_has_them() -> None:
    assert VERSIONS["scheduling.k8s.io", "PodGroup"] == {
        "v1alpha2": VersionLifetime("1.36", "1.37"),
        "v1alpha3": VersionLifetime("1.37"),
        "v1beta1": VersionLifetime("1.37", "1.43"),
    }


@pytest.mark.parametrize("kube", RELEASES)
def test_a_version_exists_where_the_table_has_it(kube: str) -> None:
    for (group, kind), versions in VERSIONS.items():
        served = {
            version
            for version, found in release_table(kube).groups[group].items()
            if any(resource.kind == kind for resource in found.resources.values())
        }
        assert {version for version, lifetime in versions.items() if lifetime.exists_in(kube)} == served, (kind, kube)
        assert newest_version(document(group, kind), kube) in (served or {""})


@pytest.mark.parametrize(
    ("kind", "newest"),
    [
        ("ResourceClaim", ["v1", "v1", "v1", "v1"]),
        ("DeviceTaintRule", ["v1alpha3", "v1alpha3", "v1beta2", "v1"]),
        ("ResourcePoolStatusRequest", ["", "", "v1alpha3", "v1alpha3"]),
        ("PodGroup", ["", "", "v1alpha2", "v1beta1"]),
        ("Workload", ["", "v1alpha1", "v1alpha2", "v1beta1"]),
        ("CompositePodGroup", ["", "", "", "v1alpha3"]),
        ("Pod", ["", "", "", ""]),
    ],
)
def test_newest_versions(kind: str, newest: list[str]) -> None:
    (group,) = {group for group, known in VERSIONS if known == kind} or {GROUPS[0]}
    found = [newest_version(document(group, kind), kube) for kube in ("1.34", "1.35", "1.36", "1.37")]
    assert found == newest


def test_only_v1_is_served_by_default() -> None:
    for (group, kind), versions in VERSIONS.items():
        for version in versions:
            assert is_served_by_default(document(group, kind), version, "1.37") is (version == "v1")
