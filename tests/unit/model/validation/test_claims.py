from __future__ import annotations

from typing import Any

import pytest

from allotment.model.features import Features
from allotment.model.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate
from allotment.model.validation import admission
from allotment.model.validation.context import ValidationContext
from tests.unit.model.validation.validating import CONTEXT, NOW, check, texts, value

META = {"name": "c", "namespace": "n"}
REFERENCE = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


def claim(devices: Any, **meta: Any) -> ResourceClaim:
    return value(ResourceClaim, {"metadata": META | meta, "spec": {"devices": devices}})


def request(**fields: Any) -> dict[str, Any]:
    return {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"} | fields}]}


def problems(devices: Any, context: ValidationContext = CONTEXT, label: str | None = None) -> list[str]:
    labels = {} if label is None else {"resource.kubernetes.io/admin-access": label}
    admitted = admission.create(claim(devices), context, version="v1", now=NOW, namespace_labels=labels)
    return [text.removeprefix("spec.devices.") for text in texts(admitted.errors)]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({}, []),
        (request(), []),
        (request(count=-1), ["requests[0].exactly.count: Invalid value: -1: must be greater than zero"]),
        (request(allocationMode="All"), []),
        (
            request(deviceClassName="Bad Class"),
            [
                (
                    'requests[0].exactly.deviceClassName: Invalid value: "Bad Class": a lowercase RFC 1123 subdomain '
                    "must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
                    "alphanumeric character"
                )
            ],
        ),
        (request(selectors=[{}]), ["requests[0].exactly.selectors[0].cel: Required value"]),
        (
            request(selectors=[{"cel": {"expression": "broken"}}, {"cel": {"expression": "dear"}}]),
            [
                ('requests[0].exactly.selectors[0].cel.expression: Invalid value: "broken": compilation failed'),
                "requests[0].exactly.selectors[1].cel.expression: Forbidden: too complex, exceeds cost limit",
            ],
        ),
        (
            request(selectors=[{"cel": {"expression": "x" * 10241}}]),
            ["requests[0].exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"],
        ),
        (
            request(tolerations=[{"operator": "Foo"}, {"effect": "Bar"}, {"operator": "Exists", "value": "v"}]),
            [
                (
                    'requests[0].exactly.tolerations[0].operator: Unsupported value: "Foo": supported values: "Equal", '
                    '"Exists"'
                ),
                (
                    'requests[0].exactly.tolerations[1].effect: Unsupported value: "Bar": supported values: '
                    '"NoExecute", "NoSchedule", "None"'
                ),
                ('requests[0].exactly.tolerations[2].value: Invalid value: "v": must be empty for operator `Exists`'),
            ],
        ),
        (
            {"requests": [{"name": "r", "firstAvailable": [{"name": f"s{i}"} for i in range(9)]}]},
            ["requests[0].firstAvailable: Too many: 9: must have at most 8 items"],
        ),
        (request() | {"constraints": [{"matchAttribute": "a/b", "distinctAttribute": "nope"}]}, []),
        (
            request() | {"constraints": [{"distinctAttribute": "nope", "requests": ["r/x", "a/b/c", "r"]}]},
            [
                f'constraints[0].requests[0]: Invalid value: "r/x": {REFERENCE}',
                f'constraints[0].requests[1]: Invalid value: "a/b/c": {REFERENCE}',
                (
                    'constraints[0].distinctAttribute: Invalid value: "nope": a fully qualified name must be a domain '
                    "and a name separated by a slash"
                ),
            ],
        ),
        (
            request() | {"config": [{"opaque": {"driver": "", "parameters": [1]}}]},
            [
                "config[0].opaque.driver: Required value",
                'config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
            ],
        ),
        (
            request() | {"config": [{"opaque": {"driver": "d", "parameters": {"a": "ü" * 5200}}}]},
            ["config[0].opaque.parameters: Too long: may not be more than 10240 bytes"],
        ),
    ],
)
def test_new_claims(devices: Any, expected: list[str]) -> None:
    assert problems(devices) == expected


def test_without_the_gate_a_constraint_requires_match_attribute() -> None:
    off = ValidationContext(Features("1.35"), check)
    both = request() | {"constraints": [{"distinctAttribute": "a/b"}]}
    assert problems(both, off) == ["constraints[0].matchAttribute: Required value"], (
        "the field is dropped and then missing"
    )


def test_admin_access_requires_the_namespace_label() -> None:
    wanted = request(adminAccess=True)
    path = "requests[0].adminAccess: Forbidden: admin access to devices requires"
    assert [text[: len(path)] for text in problems(wanted)] == [path]
    assert problems(wanted, label="true") == []
    assert len(problems(wanted, label="True")) == 1
    assert problems(request(adminAccess=False)) == []


def test_spec_of_a_stored_claim_is_immutable() -> None:
    old = claim(request(count=-1), resourceVersion="1")  # an invalid claim that an older server stored
    old = admission.create(old, CONTEXT, version="v1", now=NOW).value
    labelled = claim(request(count=-1), resourceVersion="1", labels={"a": "b"})
    assert admission.update(labelled, old, CONTEXT, version="v1", now=NOW).errors == []
    other = claim(request(count=2), resourceVersion="1")
    (problem,) = admission.update(other, old, CONTEXT, version="v1", now=NOW).errors
    assert str(problem) == (
        'spec: Invalid value: {"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"gpu.example.com",'
        '"Selectors":null,"AllocationMode":"ExactCount","Count":2,"AdminAccess":null,"Tolerations":null,'
        '"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}: field is immutable'
    )


def test_template_is_validated_on_update() -> None:
    tree = {"metadata": META | {"resourceVersion": "1"}, "spec": {"spec": {"devices": request(count=-1)}}}
    old = value(ResourceClaimTemplate, tree)
    found = texts(admission.update(old, old, CONTEXT, version="v1", now=NOW).errors)
    assert "spec.spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero" in found


def test_template_metadata_allows_only_labels_and_annotations() -> None:
    tree = {
        "metadata": META,
        "spec": {"metadata": {"name": "x", "uid": "y", "labels": {"a": "b"}, "finalizers": ["a/b"]}, "spec": {}},
    }
    found = texts(admission.create(value(ResourceClaimTemplate, tree), CONTEXT, version="v1", now=NOW).errors)
    assert found == [
        "spec.metadata.name: Forbidden: cannot be set",
        "spec.metadata.uID: Forbidden: cannot be set",
        "spec.metadata.finalizers: Forbidden: cannot be set",
    ]


def device_class(**spec: Any) -> DeviceClass:
    return value(DeviceClass, {"metadata": {"name": "k", "resourceVersion": "1"}, "spec": spec})


def test_unchanged_selectors_of_a_class_are_checked_as_stored() -> None:
    selector = {"cel": {"expression": "new only"}}
    old = device_class(selectors=[selector])
    assert len(admission.create(old, CONTEXT, version="v1", now=NOW).errors) == 1
    renamed = device_class(selectors=[selector], extendedResourceName="example.com/gpu")
    assert admission.update(renamed, old, CONTEXT, version="v1", now=NOW).errors == []
    more = device_class(selectors=[selector, selector])
    assert len(admission.update(more, old, CONTEXT, version="v1", now=NOW).errors) == 2


def test_unchanged_parameters_of_a_class_may_be_large() -> None:
    large = {"opaque": {"driver": "d", "parameters": {"a": "x" * 10240}}}
    old = device_class(config=[large])
    assert len(admission.create(old, CONTEXT, version="v1", now=NOW).errors) == 1
    assert admission.update(old, old, CONTEXT, version="v1", now=NOW).errors == []


def test_generation_increases_with_changes_of_a_class() -> None:
    old = admission.create(device_class(), CONTEXT, version="v1", now=NOW).value
    assert old.metadata.generation == 1
    same = admission.update(device_class(), old, CONTEXT, version="v1", now=NOW).value
    assert same.metadata.generation == 1
    changed = device_class(extendedResourceName="example.com/gpu")
    assert admission.update(changed, old, CONTEXT, version="v1", now=NOW).value.metadata.generation == 2


def test_length_of_a_class_name_is_in_bytes() -> None:
    """The newer upstream rules use bytes in the message, the older ones characters."""
    long = value(DeviceClass, {"metadata": {"name": "a" * 254}})
    (problem,) = admission.create(long, CONTEXT, version="v1", now=NOW).errors
    assert problem.detail == "must be no more than 253 bytes"
