"""S117: fields of other releases are named as such, and never corrected to a similar name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allotment.model.fields import shape_of
from allotment.model.strict_decoding import strict_decode
from allotment.tools.check.rules.shape import other_release, unknown_field
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.shape.rule_results import fixed_documents, matches_of

RULE = other_release.RULE
OLD, NEW = "nodeAllocatableResourceMappings", "nodeAllocatableResources"


def a_slice(device: dict[str, Any], version: str = "v1") -> str:
    device = {"name": "d", "capacity": {"cores": {"value": "8"}}, **device}
    if version == "v1beta1":
        device = {"name": device.pop("name"), "basic": device}
    spec = {
        "driver": "cpu.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "resourceSliceCount": 1},
        "devices": [device],
    }
    tree = {
        "apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec
    }  # fmt: skip
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"capacityKey": "cores"}, {"capacityKey": "cores", "capacityMultiplier": "1"}),
        ({"capacityKey": "cores", "allocationMultiplier": "2"}, {"capacityKey": "cores", "capacityMultiplier": "2"}),
        ({"allocationMultiplier": "2Gi"}, {"deviceMultiplier": "2Gi"}),
        ({}, {"deviceMultiplier": "1"}),
        (None, {"deviceMultiplier": "1"}),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_mappings_are_converted(before: Any, after: dict[str, str], version: str) -> None:
    text = a_slice({OLD: {"cpu": before, "memory": {"allocationMultiplier": "1Gi"}}}, version)
    (match,) = matches_of(RULE, text, kube="1.37")
    assert (
        match.message
        == f'Kubernetes 1.37 has no field "{OLD}" in {"BasicDevice" if version == "v1beta1" else "Device"}'
    )
    assert match.help == f"{OLD} was replaced by {NEW} in Kubernetes 1.37"
    (tree,) = fixed_documents(RULE, text, kube="1.37")
    device = tree["spec"]["devices"][0]
    device = device.get("basic", device)
    assert device[NEW] == {"cpu": {"mapping": after}, "memory": {"mapping": {"deviceMultiplier": "1Gi"}}}
    assert OLD not in device
    shape = shape_of(tree["apiVersion"], "ResourceSlice", "1.37")
    assert shape is not None
    assert strict_decode(tree, tree["apiVersion"], "ResourceSlice", shape).violations == []


def test_the_release_that_has_the_field_is_not_concerned() -> None:
    assert matches_of(RULE, a_slice({OLD: {"cpu": {"capacityKey": "cores"}}}), kube="1.36") == []


def test_a_device_with_both_fields_is_left_to_its_author() -> None:
    text = a_slice({OLD: {"cpu": {}}, NEW: {"cpu": {"mapping": {"deviceMultiplier": "1"}}}})
    (match,) = matches_of(RULE, text, kube="1.37")
    assert match.fix is None


def test_a_newer_field_is_not_corrected_to_an_older_one() -> None:
    text = a_slice({NEW: {"cpu": {"mapping": {"deviceMultiplier": "1"}}}})
    (match,) = matches_of(RULE, text, kube="1.36")
    assert match.help == f"{NEW} exists since Kubernetes 1.37; 1.36 has {OLD}"
    assert match.fix is None
    assert matches_of(unknown_field.RULE, text, kube="1.36") == []


def test_workload_reference_of_pods() -> None:
    text = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"workloadRef": {"name": "w", "podGroup": "g"}, "containers": [{"name": "c", "image": "i"}]},
        }
    )
    (match,) = matches_of(RULE, text, kube="1.36")
    assert match.help == "workloadRef was replaced by schedulingGroup in Kubernetes 1.36"
    assert matches_of(RULE, text, kube="1.35") == []
    (match,) = matches_of(RULE, text, kube="1.34")
    assert match.help == "workloadRef exists since Kubernetes 1.35"


@pytest.mark.parametrize("kube", ["1.36", "1.37"])
def test_typing_errors_are_corrected_to_fields_of_the_release(kube: str) -> None:
    field = {"1.36": OLD, "1.37": NEW}[kube]
    text = a_slice({f"{field}s": {}})
    (match,) = matches_of(unknown_field.RULE, text, kube=kube)
    assert match.help == f"did you mean {field}?"
    assert matches_of(RULE, text, kube=kube) == []
    assert bundle_of(text, kube=kube).manifests == {}
