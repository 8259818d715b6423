"""M409: admin access and the label that allows it."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import admin_access_label
from tests.unit.tools.check.rules.meaning.manifests import (
    claim,
    fixed_documents,
    gpu_request,
    levels_and_paths,
    matches_of,
    template,
)

RULE = admin_access_label.RULE

LABEL = "resource.kubernetes.io/admin-access"
WHERE = "ResourceClaim spec.devices.requests[0].exactly.adminAccess"
OBSERVING = claim(gpu_request(adminAccess=True), namespace="ops")


def namespace(labels: str = "") -> str:
    """The Namespace ``ops``."""
    return f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ops\n{f'  labels: {labels}' if labels else ''}\n"


@pytest.mark.parametrize(
    ("labels", "after"),
    [
        ("", {LABEL: "true"}),
        ("{team: a}", {"team": "a", LABEL: "true"}),
        (f'{{{LABEL}: "True"}}', {LABEL: "true"}),
        ('{resource.k8s.io/admin-access: "true"}', {LABEL: "true"}),
    ],
)
def test_namespace_without_the_label(labels: str, after: dict[str, str]) -> None:
    texts = (namespace(labels), OBSERVING)
    assert levels_and_paths(RULE, *texts) == [("error", WHERE)]
    assert fixed_documents(RULE, *texts)[0]["metadata"]["labels"] == after


def test_namespace_with_the_label() -> None:
    assert levels_and_paths(RULE, namespace(f'{{{LABEL}: "true"}}'), OBSERVING) == []
    assert levels_and_paths(RULE, OBSERVING, cluster=namespace(f'{{{LABEL}: "true"}}')) == []


def test_unknown_namespace() -> None:
    assert levels_and_paths(RULE, OBSERVING) == [("note", WHERE)]


def test_namespace_of_the_cluster_has_help_but_no_fix() -> None:
    (match,) = matches_of(RULE, OBSERVING, cluster=namespace())
    assert match.fix is None
    assert "kubectl label namespace ops" in match.help


def test_templates_need_the_label() -> None:
    assert (
        levels_and_paths(RULE, namespace(), template(gpu_request(adminAccess=True), namespace="ops"))[0][0] == "error"
    )
    assert levels_and_paths(RULE, namespace(), template(gpu_request(adminAccess=False), namespace="ops")) == []
