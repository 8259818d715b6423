"""Allocations of existing claims, and of claims that are created later."""

from __future__ import annotations

from allotment.cli.demo.allocations import Allocations
from allotment.lab.lab import Lab

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %(name)s}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: %(name)s}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: %(name)s}]
  containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
"""


def test_allocations_before_and_after_the_start_are_known() -> None:
    with Lab("t4-4x-pcie", speed=50) as lab:
        lab.apply(CLAIM % {"name": "before"})
        lab.wait("pod/before")
        allocations = Allocations(lab)
        lab.apply(CLAIM % {"name": "after"})
        given = [device["device"] for name in ("after", "before") for device in allocations.of("default", name)]
    assert given == ["gpu-1", "gpu-0"]
