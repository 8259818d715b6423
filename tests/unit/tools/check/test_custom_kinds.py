"""Rules check the pod templates of third-party workload kinds."""

from __future__ import annotations

from allotment.tools.check.rules.meaning import claim_unused, device_plugin_too, no_such_request
from tests.unit.tools.check.rules.meaning.manifests import gpu_request, matches_of, template

RAY = """\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray, namespace: default}
spec:
  workerGroupSpecs:
  - groupName: gpus
    template:
      spec:
        resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
        containers:
        - name: worker
          image: i
          resources: RESOURCES
"""


def test_unknown_request() -> None:
    ray = RAY.replace("RESOURCES", "{claims: [{name: gpu, request: gpus}]}")
    (match,) = matches_of(no_such_request.RULE, template(gpu_request("gpu")), ray)
    assert match.path[:3] == ("spec", "workerGroupSpecs", 0)


def test_unused_claim() -> None:
    assert len(matches_of(claim_unused.RULE, template(gpu_request("gpu")), RAY.replace("RESOURCES", "{}"))) == 1
    with_claim = RAY.replace("RESOURCES", "{claims: [{name: gpu}]}")
    assert matches_of(claim_unused.RULE, template(gpu_request("gpu")), with_claim) == []


def test_claim_and_device_plugin() -> None:
    ray = RAY.replace("RESOURCES", "{limits: {nvidia.com/gpu: 1}, claims: [{name: gpu}]}")
    assert len(matches_of(device_plugin_too.RULE, template(gpu_request("gpu")), ray)) == 1
