"""M413: objects that exist in the cluster with a different spec."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import template_edited
from tests.unit.tools.check.rules.meaning.manifests import (
    GPU,
    claim,
    gpu_request,
    levels_and_paths,
    matches_of,
    template,
)

RULE = template_edited.RULE

STORED = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
IN_CLUSTER = template({"name": "gpu", "exactly": STORED}, namespace="default")
USED = """\
---
apiVersion: v1
kind: Pod
metadata: {name: app, namespace: default, uid: u}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: app}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: app-gpu-x
  namespace: default
  annotations: {resource.kubernetes.io/pod-claim-name: gpu}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: app, uid: u, controller: true}]
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""


def test_template_spec_is_immutable() -> None:
    assert levels_and_paths(RULE, template(gpu_request(count=2)), cluster=IN_CLUSTER) == [
        ("error", "ResourceClaimTemplate spec")
    ]


def test_defaulting_makes_no_difference() -> None:
    assert levels_and_paths(RULE, template(GPU), cluster=IN_CLUSTER) == []
    assert levels_and_paths(RULE, template(GPU)) == []
    assert levels_and_paths(RULE, template(gpu_request(count=2), namespace="other"), cluster=IN_CLUSTER) == []


def test_claims_created_from_the_template_are_counted() -> None:
    (match,) = matches_of(RULE, template(gpu_request(count=2)), cluster=IN_CLUSTER + USED)
    assert "a claim created from it keeps the old spec" in match.help
    assert "rollout restart" in match.help
    (none,) = matches_of(RULE, template(gpu_request(count=2)), cluster=IN_CLUSTER)
    assert "old spec" not in none.help


def test_claim_spec_is_immutable() -> None:
    stored = claim({"name": "gpu", "exactly": STORED}, namespace="default")
    assert levels_and_paths(RULE, claim(gpu_request(count=2)), cluster=stored) == [("error", "ResourceClaim spec")]
