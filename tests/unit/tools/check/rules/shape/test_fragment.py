"""S114: documents that are not objects, and what they look like."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.shape import fragment
from tests.unit.tools.check.rules.shape.rule_results import levels_and_messages

RULE = fragment.RULE


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("containers: []\n", "part of a pod's spec"),
        ("spec: {nodeSelector: {a: b}}\n", "part of a pod or pod template"),
        ("resources: {limits: {nvidia.com/gpu: 1}}\n", "part of a container"),
        ("selectors: []\n", "part of a request or DeviceClass"),
        ("attributes: {a: {string: b}}\n", "a device in a ResourceSlice"),
        ("devices: {requests: []}\n", "part of a claim or ResourceSlice"),
        ("version: v1\nmig-configs: {}\n", "a configuration for nvidia-mig-parted"),
        ("mig: {}\ndevicePlugin: {}\n", "Helm values for NVIDIA's gpu-operator"),
        ("gpuResourcesEnabledOverride: true\n", "Helm values for the chart of driver gpu.nvidia.com"),
        ("replicaCount: 3\n", "Helm values or other configuration"),
    ],
)
def test_kind_of_fragment(text: str, description: str) -> None:
    assert levels_and_messages(RULE, text) == [
        ("note", f"not a Kubernetes object: it has no apiVersion and no kind; it looks like {description}")
    ]


def test_document_without_kind() -> None:
    ((_, message),) = levels_and_messages(RULE, "apiVersion: v2\nname: my-chart\n")
    assert message.startswith("not a Kubernetes object: it has no kind;")


def test_custom_kinds_are_objects() -> None:
    assert levels_and_messages(RULE, "apiVersion: example.com/v1\nkind: Thing\n") == []
