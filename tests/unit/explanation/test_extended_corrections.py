"""A misspelled extended resource, and too many of one, are corrected in the container that requests it."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.engine.refusal import SuggestedChange
from tests.unit.explanation.test_explain import explained, node, slice_

CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  extendedResourceName: example.com/gpu
  selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]
"""


def pod(*containers: str) -> str:
    listed = "".join(
        f"  - {{name: c{number}, image: pause, resources: {{{c}}}}}\n" for number, c in enumerate(containers)
    )
    return f"\napiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: ns}}\nspec:\n  containers:\n{listed}"


def first_change(*containers: str) -> SuggestedChange | None:
    (answer,) = explained(CLASS, node("a"), slice_("a", 2), pod(*containers)).answers
    assert answer.reasons is not None
    return next(iter(answer.reasons.headline.changes), None)


@pytest.mark.parametrize(
    ("resources", "becomes"),
    [
        ("limits: {example.com/gpus: 1}", {"limits": {"example.com/gpu": 1}}),
        ("limits: {cpu: 2, example.com/gpus: 1}", {"limits": {"cpu": "2", "example.com/gpu": 1}}),
        (
            "limits: {example.com/gpus: 1}, requests: {example.com/gpus: 1}",
            {"limits": {"example.com/gpu": 1}, "requests": {"example.com/gpu": 1}},
        ),
        ("limits: {example.com/gpu: 3}", {"limits": {"example.com/gpu": 2}}),
        ("limits: {example.com/gpu: 1, nvidia.com/gpu.count: 8}", {"limits": {"example.com/gpu": "1"}}),
    ],
)
def test_the_resources_of_the_container_change(resources: str, becomes: dict[str, Any]) -> None:
    change = first_change("limits: {cpu: 1}", resources)
    assert change is not None
    assert (change.object, change.path, change.becomes) == ("Pod ns/p", "spec.containers[1].resources", becomes)


def test_of_several_containers_none_is_chosen() -> None:
    """Which one gets fewer devices is for the author to decide."""
    assert first_change("limits: {example.com/gpus: 1}", "limits: {example.com/gpus: 1}") is None
    fewer = first_change("limits: {example.com/gpu: 2}", "limits: {example.com/gpu: 1}")
    assert fewer is not None
    assert (fewer.object, fewer.text) == ("", "request 1 device instead of 2")


def test_stated_memory_is_not_removed() -> None:
    assert first_change("limits: {example.com/gpu: 1, nvidia.com/gpu.memory: 80Gi}") is None


def test_whole_gpu_is_not_suggested_for_a_mig_device() -> None:
    whole = CLASS.replace("example.com/gpu", "nvidia.com/gpu")
    (answer,) = explained(whole, node("a"), slice_("a", 2), pod("limits: {nvidia.com/mig-1g.10gb: 1}")).answers
    assert answer.reasons is not None
    assert answer.reasons.headline.summary == 'no node and no DeviceClass provides "nvidia.com/mig-1g.10gb"'


def test_a_resource_of_another_kind_is_not_suggested() -> None:
    assert first_change("limits: {example.com/fpga: 1}") is None
