"""Documents that are no object, and what they seem to be."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.shape import fragment
from tests.unit.tools.check.rules.shape.rule_results import levels_and_messages

RULE = fragment.RULE


@pytest.mark.parametrize(
    ("text", "seems"),
    [
        ("containers: []\n", "part of a pod's spec"),
        ("spec: {nodeSelector: {a: b}}\n", "part of a pod or of a pod's template"),
        ("resources: {limits: {nvidia.com/gpu: 1}}\n", "part of a container"),
        ("selectors: []\n", "part of a request or of a DeviceClass"),
        ("attributes: {a: {string: b}}\n", "a device of a ResourceSlice"),
        ("devices: {requests: []}\n", "part of a claim or of a ResourceSlice"),
        ("version: v1\nmig-configs: {}\n", "the configuration of nvidia-mig-parted"),
        ("mig: {}\ndevicePlugin: {}\n", "the values of a Helm chart, that of NVIDIA's gpu-operator"),
        ("gpuResourcesEnabledOverride: true\n", "the values of a Helm chart, that of driver gpu.nvidia.com"),
        ("replicaCount: 3\n", "the values of a Helm chart, or some other configuration"),
    ],
)
def test_kind_of_fragment(text: str, seems: str) -> None:
    assert levels_and_messages(RULE, text) == [
        ("note", f"no Kubernetes object, for want of apiVersion and kind; this looks like {seems}")
    ]


def test_document_without_kind() -> None:
    ((_, message),) = levels_and_messages(RULE, "apiVersion: v2\nname: my-chart\n")
    assert message.startswith("no Kubernetes object, for want of kind")


def test_custom_kinds_are_objects() -> None:
    assert levels_and_messages(RULE, "apiVersion: example.com/v1\nkind: Thing\n") == []
