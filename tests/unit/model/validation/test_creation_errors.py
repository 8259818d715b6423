"""Errors of the creation of any object; the rules of each kind are tested in their own module."""

from __future__ import annotations

import pytest

from allotment.model.decoding import decode_all
from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.model.validation.context import ExpressionProblem, ValidationContext
from allotment.model.validation.creation_errors import creation_errors


def _any_expression(expression: str, *, stored: bool) -> tuple[ExpressionProblem, ...]:
    return ()


def error_paths(text: str) -> list[str]:
    (manifest,) = decode_all(load_text(text, "file.yaml").documents).manifests
    return [error.path for error in creation_errors(manifest, ValidationContext(Features("1.36"), _any_expression), {})]


POD = "{containers: [{name: a, resources: {claims: [{name: gpu}]}}]}"


@pytest.mark.parametrize(
    ("version", "kind", "spec", "path"),
    [
        ("v1", "Pod", POD, "spec"),
        ("apps/v1", "Deployment", f"{{selector: {{}}, template: {{spec: {POD}}}}}", "spec.template.spec"),
        (
            "batch/v1", "CronJob", f"{{schedule: '', jobTemplate: {{spec: {{template: {{spec: {POD}}}}}}}}}",
            "spec.jobTemplate.spec.template.spec",
        ),
    ],
)  # fmt: skip
def test_claims_of_pods_and_pod_templates_are_validated(version: str, kind: str, spec: str, path: str) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"
    assert error_paths(text) == [f"{path}.containers[0].resources.claims[0]"]


def test_claims_of_pod_groups_are_validated() -> None:
    text = (
        "apiVersion: scheduling.k8s.io/v1alpha2\nkind: PodGroup\nmetadata: {name: a}\n"
        "spec: {resourceClaims: [{name: gpu}]}\n"
    )
    assert error_paths(text) == ["spec.resourceClaims[0]"]


def test_admin_access_requires_the_namespace_label() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: "
        "[{name: a, exactly: {deviceClassName: a, adminAccess: true}}]}}\n"
    )
    assert error_paths(text) == ["spec.devices.requests[0].adminAccess"]


def test_other_kinds_are_not_validated() -> None:
    assert error_paths("apiVersion: v1\nkind: Service\nmetadata: {name: A}\nspec: {}\n") == []
