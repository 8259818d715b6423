"""Advice about fields that another release or version has."""

from __future__ import annotations

import pytest

from allotment.model.field_history import REPLACEMENTS, release_advice, releases_with, version_advice
from allotment.model.fields import TypeShape, kinds_of, shape_of
from allotment.model.pruning import Path
from allotment.model.releases import RELEASES, release_table

CLAIM = ("resource.k8s.io/v1", "ResourceClaim")
REQUEST: Path = ("spec", "devices", "requests", 0)


def test_releases_of_a_field() -> None:
    assert releases_with(*CLAIM, (*REQUEST, "exactly", "count")) == RELEASES
    assert releases_with(*CLAIM, (*REQUEST, "exactly", "derivedAttributes")) == RELEASES[RELEASES.index("1.37") :]
    assert releases_with(*CLAIM, ("spec", "nothing")) == ()


@pytest.mark.parametrize("inner", [("exactly",), ()])
def test_a_newer_field_beside_or_below_its_struct(inner: tuple[str, ...]) -> None:
    path = (*REQUEST, *inner, "derivedAttributes")
    assert release_advice(*CLAIM, path, "1.36") == "derivedAttributes exists since Kubernetes 1.37"
    assert release_advice(*CLAIM, path, "1.37") == ""


def test_without_a_release_the_newest_one_is_meant() -> None:
    path = ("spec", "devices", 0, "nodeAllocatableResourceMappings")
    advice = release_advice("resource.k8s.io/v1", "ResourceSlice", path, "", "Device")
    assert advice == "nodeAllocatableResourceMappings was replaced by nodeAllocatableResources in Kubernetes 1.37"
    assert release_advice("resource.k8s.io/v1", "ResourceSlice", ("spec", "skipNodeOperations"), "") == ""


def test_fields_of_other_versions_of_groups() -> None:
    new, old = "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha2"
    path = ("spec", "podGroupTemplateRef")
    assert (
        version_advice(new, "PodGroup", path, "PodGroupSpec")
        == f"podGroupTemplateRef was replaced by workloadRef in {new}"
    )
    advice = version_advice(old, "PodGroup", ("spec", "workloadRef"), "PodGroupSpec")
    assert advice == f"workloadRef belongs to scheduling.k8s.io/v1alpha3 and {new}, not to {old}"


def _structs() -> dict[str, set[str]]:
    """The fields of every struct by name, in all releases."""
    found: dict[str, set[str]] = {}
    seen: set[int] = set()

    def visit(shape: TypeShape | None) -> None:
        if shape is None or id(shape) in seen:
            return
        seen.add(id(shape))
        found.setdefault(shape.bare_name, set()).update(shape.fields)
        for field in shape.fields.values():
            visit(field.shape)
        visit(shape.element)

    for release in RELEASES:
        for version in release_table(release).kinds:
            for kind in kinds_of(version, release):
                visit(shape_of(version, kind, release))
    return found


def test_replacements_name_fields_of_the_release_tables() -> None:
    structs = _structs()
    for (struct, old), new in REPLACEMENTS.items():
        assert {old, new} <= structs[struct]
