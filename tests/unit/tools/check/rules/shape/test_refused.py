"""S109: errors of the API server that no other rule explains."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.shape import gate_off, refused
from tests.unit.tools.check.rules.shape.rule_results import claim, fixed_documents, levels_and_messages, matches_of

RULE = refused.RULE
GOOD = "- name: a\n  exactly: {deviceClassName: a}"


def test_server_message_at_the_written_path() -> None:
    text = claim("- name: a\n  deviceClassName: a\n  count: -1", version="v1beta1")
    (match,) = matches_of(RULE, text)
    assert match.message == "spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"
    assert match.path == ("spec", "devices", "requests", 0, "count")


def test_missing_field_is_reported_at_its_parent() -> None:
    (match,) = matches_of(RULE, claim("- name: a"))
    assert match.path == ("spec", "devices", "requests", 0)
    assert "exactly one of `exactly` or `firstAvailable` is required" in match.message


def test_slices_classes_and_taint_rules() -> None:
    text = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {name: a, resourceSliceCount: 1}
  devices:
  - {name: a, attributes: {v: {version: "8.0"}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: a}
spec: {extendedResourceName: gpu}
---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: a}
spec: {taint: {key: a, effect: Never}}
"""
    messages = [message for _, message in levels_and_messages(RULE, text)]
    assert [message.partition(":")[0] for message in messages] == [
        "spec.devices[0].attributes[v].version",
        "spec.extendedResourceName",
        "spec.taint.effect",
    ]


def test_missing_expression() -> None:
    ((_, message),) = levels_and_messages(
        RULE, claim("- name: a\n  exactly: {deviceClassName: a, selectors: [{cel: {}}]}")
    )
    assert "cel.expression: Invalid value" in message


def test_long_expression_is_not_compiled() -> None:
    expression = " || ".join(["true"] * 2000)
    request = f"- name: a\n  exactly: {{deviceClassName: a, selectors: [{{cel: {{expression: '{expression}'}}}}]}}"
    ((_, message),) = levels_and_messages(RULE, claim(request))
    assert message.endswith("Too long: may not be more than 10240 bytes")


def test_pod_templates_of_workloads() -> None:
    text = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  selector: {}
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimName: a}]
      containers: [{name: a, resources: {claims: [{name: gpus}]}}]
"""
    (match,) = matches_of(RULE, text)
    assert match.path == ("spec", "template", "spec", "containers", 0, "resources", "claims", 0)
    assert 'Not found: "gpus"' in match.message


@pytest.mark.parametrize(
    "text",
    [
        claim("- exactly: {deviceClassName: a}"),  # without a name
        claim(GOOD, devices_extra="    constraints: [{requests: [b], matchAttribute: a/b}]\n"),  # no such request
        claim("- name: a\n  exactly: {deviceClassName: a, selectors: [{cel: {expression: nonsense(}}]}"),
        claim("- name: a\n  exactly: {deviceClassName: a, adminAccess: true}"),  # the namespace's label
    ],
)
def test_errors_that_other_rules_explain(text: str) -> None:
    assert levels_and_messages(RULE, text) == []


def test_errors_of_disabled_gates_are_left_to_their_rule() -> None:
    text = claim("- name: a\n  firstAvailable: [{name: b, deviceClassName: c}]")
    off = {"DRAPrioritizedList": False}
    assert levels_and_messages(RULE, text, gates=off) == []
    assert [level for level, _ in levels_and_messages(gate_off.RULE, text, gates=off)] == ["error"]
    bad = claim("- name: a\n  firstAvailable: [{name: b, deviceClassName: c}]\n- name: b\n  exactly: {}")
    assert [message for _, message in levels_and_messages(RULE, bad, gates=off)] == [
        "spec.devices.requests[1].exactly.deviceClassName: Required value"
    ]


def test_placeholders_are_a_note() -> None:
    text = claim(GOOD).replace("name: gpu\n", "name: ${APP}-gpu\n", 1)
    assert levels_and_messages(RULE, text) == [
        ("note", '"${APP}-gpu" is a placeholder: unless it is replaced, the API server rejects the ResourceClaim')
    ]


@pytest.mark.parametrize(
    ("written", "expected", "safe"),
    [("all", "All", True), ("Exact", "ExactCount", False), ("exactcount", "ExactCount", True)],
)
def test_unsupported_value_is_corrected(written: str, expected: str, safe: bool) -> None:
    text = claim(f"- name: a\n  exactly: {{deviceClassName: a, allocationMode: {written}}}")
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert (match.fix.text, match.fix.safe) == (f"write {expected}", safe)


def test_unknown_claim_of_a_container_is_corrected() -> None:
    text = """apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers: [{name: c, image: i, resources: {claims: [{name: gpuu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: x}, {name: nic, resourceClaimName: z}]
"""
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert (match.fix.text, match.fix.safe) == ("write gpu", False)
    assert fixed_documents(RULE, text)[0]["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]


def test_pods_and_workloads_need_names() -> None:
    pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: i}]}\n"
    assert levels_and_messages(RULE, pod) == [
        ("error", "metadata.name: Required value: name or generateName is required")
    ]
    assert levels_and_messages(RULE, pod + "metadata: {generateName: a-}\n") == []
