"""The manifests that a scheduler gets in these tests."""

from __future__ import annotations

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
"""


def pod(name: str, scheduler: str = "allotment-scheduler") -> str:
    """A pod that requests a GPU of its own."""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  schedulerName: {scheduler}
  terminationGracePeriodSeconds: 0
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: gpu}}]
  containers: [{{name: main, image: busybox, resources: {{claims: [{{name: gpu}}]}}}}]
"""
