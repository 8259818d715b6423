"""M413: objects that exist in the cluster with a different spec."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from allotment.tools.check.rules.meaning import template_edited
from tests.unit.tools.check.rules.meaning.manifests import (
    GPU,
    by_claim,
    by_template,
    claim,
    gpu_request,
    levels_and_paths,
    matches_of,
    pod,
    template,
    workload,
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


def stored_pod(**spec: Any) -> str:
    """A pod as the cluster has it, with defaults and fields that admission sets."""
    tree = yaml.safe_load(pod(resourceClaims=by_template(), namespace="default", **spec))
    tree["spec"].update(nodeName="a", tolerations=[{"key": "example.com/gpu", "operator": "Exists"}])
    tree["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100m"}
    return yaml.safe_dump(tree)


def test_pod_that_is_applied_again_is_unchanged() -> None:
    assert levels_and_paths(RULE, pod(resourceClaims=by_template()), cluster=stored_pod()) == []


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"resourceClaims": by_template("other")}, "spec.resourceClaims"),
        ({"resourceClaims": by_claim()}, "spec.resourceClaims"),
        ({"nodeSelector": {"size": "large"}}, "spec.nodeSelector"),
        ({"uses": ()}, "spec.containers[0].resources"),
    ],
)
def test_fields_of_a_pod_are_immutable(changed: dict[str, Any], path: str) -> None:
    text = pod(**{"resourceClaims": by_template(), **changed})
    assert levels_and_paths(RULE, text, cluster=stored_pod()) == [("error", f"Pod {path}")]


def test_field_that_the_manifest_lacks_is_shown_at_the_spec() -> None:
    text = pod(resourceClaims=by_template())
    (match,) = matches_of(RULE, text, cluster=stored_pod(nodeSelector={"size": "large"}))
    assert match.path == ("spec",)
    assert "different nodeSelector" in match.message


def test_command_replaces_the_pod_and_its_generated_claims() -> None:
    (match,) = matches_of(RULE, pod(resourceClaims=by_template("other")), cluster=stored_pod())
    assert "kubectl replace --force -f " in match.help
    assert "the claims that are generated from its templates" in match.help


def test_node_selector_of_a_gated_pod_may_change() -> None:
    text = pod(resourceClaims=by_template(), nodeSelector={"size": "large"})
    assert levels_and_paths(RULE, text, cluster=stored_pod(schedulingGates=[{"name": "example.com/wait"}])) == []


def test_pods_of_a_job_are_immutable_and_those_of_a_deployment_are_not() -> None:
    for kind, expected in (("Job", ["error"]), ("Deployment", [])):
        stored = workload(kind, resourceClaims=by_template(), namespace="default")
        text = workload(kind, resourceClaims=by_template("other"))
        assert [level for level, _ in levels_and_paths(RULE, text, cluster=stored)] == expected
