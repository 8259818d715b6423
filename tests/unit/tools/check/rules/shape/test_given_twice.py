"""S113: objects with the same kind and name."""

from __future__ import annotations

from allotment.tools.check.rules.shape import given_twice
from tests.unit.tools.check.rules.shape.rule_results import claim, levels_and_messages

RULE = given_twice.RULE
ONE = claim("- name: a\n  exactly: {deviceClassName: a}")
OLD = claim("- name: a\n  deviceClassName: a", version="v1beta1")
TWO = claim("- name: a\n  exactly: {deviceClassName: a, count: 2}")


def test_different_spec_in_one_file_is_an_error() -> None:
    assert levels_and_messages(RULE, f"{ONE}---\n{TWO}") == [
        ("error", "ResourceClaim default/gpu is already defined on line 4, with a different spec, which is immutable")
    ]


def test_equal_objects_are_a_note() -> None:
    assert [level for level, _ in levels_and_messages(RULE, f"{ONE}---\n{ONE}")] == ["note"]
    assert [level for level, _ in levels_and_messages(RULE, f"{ONE}---\n{OLD}")] == ["note"]
    assert levels_and_messages(RULE, {"a.yaml": ONE, "b.yaml": ONE}) == []


def test_files_of_one_folder_are_a_note() -> None:
    assert levels_and_messages(RULE, {"x/a.yaml": ONE, "x/b.yaml": TWO}) == [
        ("note", "ResourceClaim default/gpu is already defined in a.yaml:4, with a different spec, which is immutable")
    ]
    assert levels_and_messages(RULE, {"x/a.yaml": ONE, "y/a.yaml": TWO}) == []


def test_namespace_only_matters_for_namespaced_kinds() -> None:
    elsewhere = TWO.replace("  name: gpu\n", "  name: gpu\n  namespace: other\n", 1)
    assert levels_and_messages(RULE, f"{ONE}---\n{elsewhere}") == []
    device_class = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {}\n"
    other = device_class.replace("{name: a}", "{name: a, namespace: b}").replace("spec: {}", "spec: {selectors: []}")
    assert [level for level, _ in levels_and_messages(RULE, f"{device_class}---\n{other}")] == ["note"]


def test_other_kinds_are_overwritten() -> None:
    first = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {type: ClusterIP}\n"
    second = first.replace("ClusterIP", "NodePort")
    ((level, message),) = levels_and_messages(RULE, f"{first}---\n{second}")
    assert level == "warning"
    assert message.endswith("the later one replaces it")


def test_generated_names_are_unique() -> None:
    text = ONE.replace("name: gpu\n", "generateName: gpu-\n", 1)
    assert levels_and_messages(RULE, f"{text}---\n{text}") == []
