"""A selector that fails with an error on one node: Kubernetes gives up on all nodes."""

from __future__ import annotations

import pytest

from allotment.explanation import explain, fits
from allotment.model.features import Features
from allotment.model.meta import Object
from tests.unit.tools.check.bundles import world_of

FEATURES = Features(kube="1.36")
GROUND = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec:
  driver: gpu.nvidia.com
  nodeName: a
  pool: {name: a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {type: {string: gpu}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: b}
spec:
  driver: gpu.amd.com
  nodeName: b
  pool: {name: b, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0, attributes: {family: {string: AI}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: '%s'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: default}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers: [{name: main, image: cuda, resources: {claims: [{name: gpu}]}}]
"""
SLOPPY = 'device.attributes["gpu.nvidia.com"].type == "gpu"'


def objects(expression: str, selector: str = "") -> tuple[Object, ...]:
    text = GROUND % expression
    if selector:
        text += f"  nodeSelector: {{kubernetes.io/hostname: {selector}}}\n"
        text += "".join(
            f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}\n"
            for name in ("a", "b")
        )
    world = world_of(cluster=text)
    assert world is not None
    return world.objects


def test_an_error_on_one_node_is_the_headline_although_another_node_fits() -> None:
    (answer,) = explain(objects(SLOPPY), FEATURES).answers
    assert answer.reasons is not None
    assert (answer.outcome, answer.reasons.headline.code) == ("refused", "selector-fails")
    assert answer.reasons.headline.node == "b"
    assert answer.reasons.fitting == ("a",)
    assert not fits(objects(SLOPPY), FEATURES)


@pytest.mark.parametrize(
    ("expression", "selector"), [(f'device.driver == "gpu.nvidia.com" && {SLOPPY}', ""), (SLOPPY, "a")]
)
def test_the_pod_fits_without_an_error_on_an_eligible_node(expression: str, selector: str) -> None:
    (answer,) = explain(objects(expression, selector), FEATURES).answers
    assert (answer.outcome, answer.node) == ("fits", "a")
    assert fits(objects(expression, selector), FEATURES)
