"""S103: ``source`` around the name of a pod's claim."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.shape import pod_claim_source, unknown_field
from tests.unit.tools.check.rules.shape.rule_results import fixed_documents, matches_of

RULE = pod_claim_source.RULE


def deployment(entry: str) -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: app}}
spec:
  selector: {{matchLabels: {{app: app}}}}
  template:
    metadata: {{labels: {{app: app}}}}
    spec:
      containers: [{{name: app, image: app}}]
      resourceClaims: [{entry}]
"""


def test_templates_of_workloads() -> None:
    text = deployment("{name: gpu, source: {resourceClaimTemplateName: one-gpu}}")
    assert matches_of(unknown_field.RULE, text) == []
    entries = fixed_documents(RULE, text)[0]["spec"]["template"]["spec"]["resourceClaims"]
    assert entries == [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]


@pytest.mark.parametrize("source", ["{}", "one-gpu", "{resourceClaimName: a}, resourceClaimName: b"])
def test_ambiguous_source_has_no_fix(source: str) -> None:
    (match,) = matches_of(RULE, deployment(f"{{name: gpu, source: {source}}}"))
    assert match.fix is None
    assert match.help
