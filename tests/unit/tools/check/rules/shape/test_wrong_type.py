"""S108: values of another type than the field's, and their conversion."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.tools.check.rules.shape import wrong_type
from tests.unit.tools.check.rules.shape.rule_results import (
    claim,
    devices_of,
    fixed_documents,
    levels_and_messages,
    matches_of,
)

RULE = wrong_type.RULE


def claim_with_fields(fields: str) -> str:
    return claim(f"- name: gpu\n  exactly: {{deviceClassName: a, {fields}}}")


@pytest.mark.parametrize(
    ("written", "field", "expected", "safe"),
    [
        ('count: "2"', "count", 2, True),
        ('adminAccess: "true"', "adminAccess", True, True),
        ("allocationMode: 5", "allocationMode", "5", True),
        ("allocationMode: true", "allocationMode", "true", True),
        ("allocationMode: 1.50", "allocationMode", "1.50", True),
        ("allocationMode: 0x10", "allocationMode", "0x10", True),
        ('capacity: {requests: {memory: "16 Gi"}}', "capacity", {"requests": {"memory": "16Gi"}}, True),
        ("capacity: {requests: {memory: 16GiB}}", "capacity", {"requests": {"memory": "16Gi"}}, True),
        ("capacity: {requests: {memory: 16GB}}", "capacity", {"requests": {"memory": "16G"}}, True),
        ("selectors: ['true']", "selectors", [{"cel": {"expression": "true"}}], True),
        ("selectors: [{cel: 'true'}]", "selectors", [{"cel": {"expression": "true"}}], True),
    ],
)
def test_conversions(written: str, field: str, expected: Any, safe: bool) -> None:
    text = claim_with_fields(written)
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert match.fix.safe is safe
    (request,) = devices_of(fixed_documents(RULE, text)[0])["requests"]
    assert request["exactly"][field] == expected


@pytest.mark.parametrize("written", ["count: two", "count: 1.5", "selectors: {cell: {}}", "adminAccess: maybe"])
def test_values_without_conversion(written: str) -> None:
    (match,) = matches_of(RULE, claim_with_fields(written))
    assert match.fix is None


def test_single_name_becomes_a_list() -> None:
    text = claim("- name: a\n  exactly: {deviceClassName: a}", devices_extra="    config:\n    - requests: a\n")
    assert devices_of(fixed_documents(RULE, text)[0])["config"] == [{"requests": ["a"]}]


def test_messages() -> None:
    assert levels_and_messages(RULE, claim_with_fields('count: "2"')) == [
        ("error", 'count is the string "2", expected an integer')
    ]
    assert levels_and_messages(RULE, claim_with_fields("selectors: {}")) == [
        ("error", "selectors is an object, expected a list")
    ]
    assert levels_and_messages(RULE, claim_with_fields("capacity: {requests: {memory: lots}}")) == [
        ("error", 'memory is the string "lots", expected a quantity')
    ]


def test_other_kinds() -> None:
    text = """\
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {gpu: true}}
spec: {containers: [{name: a, env: [{name: A, value: 1}]}]}
"""
    (pod,) = fixed_documents(RULE, text)
    assert pod["metadata"]["labels"] == {"gpu": "true"}
    assert pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]


def test_metadata_of_custom_kinds() -> None:
    text = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: 5}\n"
    assert levels_and_messages(RULE, text) == [("error", "metadata.name is not a string")]


def test_missing_list_and_missing_field() -> None:
    text = claim_with_fields("selectors: {cel: {expression: 'true'}}")
    (request,) = devices_of(fixed_documents(RULE, text)[0])["requests"]
    assert request["exactly"]["selectors"] == [{"cel": {"expression": "true"}}]
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
    pod += (
        "  - {name: c, image: i, resources: {claims: [gpu]}}\n  resourceClaims: [{name: gpu, resourceClaimName: x}]\n"
    )
    assert fixed_documents(RULE, pod)[0]["spec"]["containers"][0]["resources"]["claims"] == [{"name": "gpu"}]


def test_placeholders_are_not_reported() -> None:
    assert levels_and_messages(RULE, claim_with_fields("count: ${GPUS}")) == []


def test_yaml_booleans_become_strings_as_written() -> None:
    text = claim("- name: y\n  exactly: {deviceClassName: on}")
    (request,) = devices_of(fixed_documents(RULE, text)[0])["requests"]
    assert (request["name"], request["exactly"]["deviceClassName"]) == ("y", "on")
