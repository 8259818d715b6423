"""Manifests that programs send in tests."""

from __future__ import annotations

from typing import Final

#: A pod with more GPUs than a node has.
APP: Final = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 9}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers: [{name: main, image: train, resources: {claims: [{name: gpus}]}}]
  resourceClaims: [{name: gpus, resourceClaimTemplateName: gpus}]
"""
CLASS: Final = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
"""
BROKEN: Final = "a: [b\n"
