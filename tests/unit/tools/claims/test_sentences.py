"""What a claim asks for, in one sentence."""

from __future__ import annotations

import pytest

from allotment.model.features import Features
from allotment.model.loading import load_text
from allotment.tools.claims.sentences import claim_sentences

_TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: llm-gpu}}
spec:
  spec:
    devices:
      requests: {requests}
      constraints: {constraints}
"""
_USER = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: llm-gpu}]
      containers:
      - {name: trainer, resources: {claims: [{name: gpu}]}}
      - {name: log}
"""
_ROOT = "[{matchAttribute: resource.kubernetes.io/pcieRoot}]"
_A100 = """{cel: {expression: 'device.attributes["gpu.nvidia.com"].productName.matches(r"\\bA100\\b")'}}"""
_MEMORY = """{cel: {expression: 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("79Gi")) >= 0'}}"""


def sentence(requests: str, constraints: str = "[]", more: str = "") -> str:
    text = _TEMPLATE.format(requests=requests, constraints=constraints) + more
    (found,) = claim_sentences(load_text(text).documents, Features("1.37"), "default")
    return found.sentence


def test_the_whole_sentence() -> None:
    request = f"{{deviceClassName: gpu.nvidia.com, count: 2, selectors: [{_A100}, {_MEMORY}]}}"
    assert sentence(f"[{{name: gpu, exactly: {request}}}]", _ROOT, _USER) == (
        "2 NVIDIA A100 with at least 79 GiB each, on the same PCIe root, for container trainer of Deployment llm "
        "(a new claim for each pod)"
    )


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("exactly: {deviceClassName: mig.nvidia.com}", "1 NVIDIA MIG device"),
        ("exactly: {deviceClassName: gpu.nvidia.com, allocationMode: All}", "all NVIDIA GPUs of a node"),
        ("exactly: {deviceClassName: fast}", "1 device of class fast"),
        (
            "exactly: {deviceClassName: gpu.nvidia.com, capacity: {requests: {memory: 10Gi}}}",
            "a share of 1 NVIDIA GPU with 10Gi of memory",
        ),
        (
            "firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com}, {name: b, deviceClassName: mig.nvidia.com}]",
            "1 NVIDIA GPU, or else 1 NVIDIA MIG device",
        ),
        (
            "exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: 'device.driver.size() > 3'}}]}",
            "1 NVIDIA GPU where device.driver.size() > 3",
        ),
        (
            "exactly: {deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: 'not CEL'}}]}",
            "1 NVIDIA GPU where not CEL",
        ),
    ],
)
def test_requests(request_: str, words: str) -> None:
    assert sentence(f"[{{name: gpu, {request_}}}]") == f"{words} (a new claim for each pod)"
