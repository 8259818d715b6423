"""S106: fields that a kind does not have, and the intended ones."""

from __future__ import annotations

from allotment.tools.check.rules.shape import unknown_field
from tests.unit.tools.check.rules.shape.rule_results import (
    claim,
    devices_of,
    fixed_documents,
    levels_and_messages,
    matches_of,
)

RULE = unknown_field.RULE
GOOD = "- name: gpu\n  exactly: {deviceClassName: gpu.example.com}\n"


def test_similar_field_is_an_unsafe_fix() -> None:
    text = claim(GOOD, devices_extra="    constraint: []\n")
    (match,) = matches_of(RULE, text)
    assert match.message == 'DeviceClaim has no field "constraint"'
    assert match.help == "did you mean constraints?"
    assert match.fix is not None
    assert not match.fix.safe
    assert "constraints" in devices_of(fixed_documents(RULE, text)[0])


def test_existing_field_is_not_overwritten() -> None:
    (match,) = matches_of(RULE, claim(GOOD, devices_extra="    constraint: []\n    constraints: []\n"))
    assert match.fix is None


def test_field_moves_to_its_level() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n  requests: []\n"
    assert fixed_documents(RULE, text)[0]["spec"] == {"devices": {"requests": []}}
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert not match.fix.safe


def test_template_without_inner_spec() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: a}\nspec:\n  devices: {}\n"
    assert fixed_documents(RULE, text)[0]["spec"] == {"spec": {"devices": {}}}
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert match.fix.safe


def test_basic_is_removed_in_v1() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    basic: {attributes: {model: {string: A}}}
"""
    assert fixed_documents(RULE, text)[0]["spec"]["devices"] == [
        {"name": "gpu-0", "attributes": {"model": {"string": "A"}}}
    ]
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert match.fix.safe


def test_kinds_of_other_groups() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {container: []}\n"
    assert levels_and_messages(RULE, text) == [("error", 'PodSpec has no field "container"')]


def test_custom_kinds_are_not_checked() -> None:
    assert (
        levels_and_messages(RULE, "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {any: thing}\n")
        == []
    )


def test_claim_with_inner_spec() -> None:
    text = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n  spec:\n"
    text += "    devices: {requests: [{name: gpu, exactly: {deviceClassName: a}}]}\n"
    (match,) = matches_of(RULE, text)
    assert match.help == "only a template has a spec inside its spec"
    assert match.fix is not None
    assert match.fix.safe
    assert list(fixed_documents(RULE, text)[0]["spec"]) == ["devices"]


def test_pod_entry_with_a_class() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c, image: i}]\n"
    (match,) = matches_of(RULE, text + "  resourceClaims: [{name: gpu, deviceClassName: gpu.intel.com}]\n")
    assert match.fix is None
    assert "whose requests name the class" in match.help


def pod(entry: str) -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: app}}
spec:
  resourceClaims:
  - {{name: a, {entry}}}
  containers:
  - {{name: app, image: pause, resources: {{claims: [{{name: a}}]}}}}
"""


def test_the_claim_of_a_pod_gets_the_field_for_its_kind() -> None:
    text = f"{claim(GOOD)}---\n{pod('claimName: gpu')}"
    (match,) = matches_of(RULE, text)
    assert match.message == 'PodResourceClaim has no field "claimName"'
    assert match.fix is not None
    assert match.fix.safe
    assert fixed_documents(RULE, text)[1]["spec"]["resourceClaims"] == [{"name": "a", "resourceClaimName": "gpu"}]
    templates = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: gpu}\nspec: {spec: {}}\n"
    entries = fixed_documents(RULE, f"{templates}---\n{pod('claimName: gpu')}")[1]["spec"]["resourceClaims"]
    assert entries == [{"name": "a", "resourceClaimTemplateName": "gpu"}]


def test_without_the_object_both_fields_are_named() -> None:
    (match,) = matches_of(RULE, pod("claimName: gpu"))
    assert match.fix is None
    assert "resourceClaimName" in match.help
    assert "resourceClaimTemplateName" in match.help
    (match,) = matches_of(RULE, pod("templateName: gpu"))
    assert match.fix is not None
    assert match.fix.text == "write resourceClaimTemplateName"
