"""V306: classes that do not exist, and suggested ones."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import unknown_class
from allotment.tools.check.run import check
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    NVIDIA,
    bundle,
    claim,
    fixed_document,
    levels_and_messages,
    matches_of,
)

RULE = unknown_class.RULE

OWN = """\
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: high-memory
spec: {}
"""

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: pod
spec:
  containers:
  - name: app
    resources:
      limits:
        deviceclass.resource.kubernetes.io/nvidia-gpu: 1
      requests:
        deviceclass.resource.kubernetes.io/nvidia-gpu: 1
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia-gpu", "gpu.nvidia.com"),
        ("any-nvidia-gpu", "gpu.nvidia.com"),
        ("nvidia-mig", "mig.nvidia.com"),
        ("nvidia-gpu-mig", "mig.nvidia.com"),
        ("nvidia-mig-small", "mig.nvidia.com"),
        ("gpu.nvida.com", "gpu.nvidia.com"),
        ("shared-amd-gpu", "gpu.amd.com"),
    ],
)
def test_class_suggestions(name: str, expected: str) -> None:
    assert levels_and_messages(RULE, claim("", class_name=name)) == [
        ("warning", f'class "{name}" is not in the files, and no known driver installs it')
    ]
    assert fixed_document(RULE, claim("", class_name=name))["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": expected
    }


def test_model_in_the_name_becomes_a_selector() -> None:
    request = fixed_document(RULE, claim("", class_name="nvidia-h100"))["spec"]["devices"]["requests"][0]["exactly"]
    assert request == {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": f'{NVIDIA}.productName.contains("H100")'}}],
    }
    # The name L40S contains L4.
    request = fixed_document(RULE, claim("true", class_name="nvidia-l4"))["spec"]["devices"]["requests"][0]["exactly"]
    assert [selector["cel"]["expression"] for selector in request["selectors"]] == [
        "true",
        f'{NVIDIA}.productName == "NVIDIA L4"',
    ]


def test_driver_from_selectors() -> None:
    text = claim(f'{NVIDIA}.productName == "NVIDIA L4"', class_name="high-memory-gpu")
    assert (
        fixed_document(RULE, text)["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    )


def test_meaningless_name_has_no_suggestion() -> None:
    (match,) = matches_of(RULE, claim("", class_name="fast"))
    assert match.fix is None


def test_classes_of_files_and_charts_are_known() -> None:
    assert levels_and_messages(RULE, claim("", class_name="high-memory") + OWN) == []
    assert fixed_document(RULE, claim("", class_name="high-memry") + OWN)["spec"]["devices"]["requests"][0][
        "exactly"
    ] == {"deviceClassName": "high-memory"}
    assert levels_and_messages(RULE, claim("", class_name="mig.nvidia.com")) == []


def test_class_missing_in_the_cluster_is_an_error() -> None:
    assert levels_and_messages(RULE, claim("", class_name="nvidia-gpu"), fleet="8xh100") == [
        ("error", 'class "nvidia-gpu" does not exist in the cluster: pods that request it stay pending')
    ]
    assert levels_and_messages(RULE, claim("", class_name="gpu.nvidia.com"), fleet="8xh100") == []
    (match,) = matches_of(RULE, claim("", class_name="gpu.amd.com"), fleet="8xh100")
    assert (match.level, match.fix) == ("error", None)
    assert "chart of gpu.amd.com" in match.help


def test_snapshot_without_classes_is_inconclusive() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n"
    assert levels_and_messages(RULE, claim("", class_name="gpu.nvidia.com"), cluster=node) == []


def test_removed_class() -> None:
    (match,) = matches_of(RULE, claim("", class_name="imex.nvidia.com"))
    assert match.message == (
        'class "imex.nvidia.com" was removed: compute-domain.nvidia.com has not installed it since release 25.3'
    )
    # The controller of ComputeDomains creates the claims of its successor.
    assert match.fix is None
    assert "compute-domain-default-channel.nvidia.com" in match.help


def test_implicit_extended_resource() -> None:
    (match,) = matches_of(RULE, POD)
    assert match.at_key
    resources = fixed_document(RULE, POD)["spec"]["containers"][0]["resources"]
    name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
    assert resources == {"limits": {name: 1}, "requests": {name: 1}}


@pytest.mark.parametrize(
    "name", ["npu.rebellions.ai", "dra.net", "npu.example.com", "example", "sriovnetwork.k8snetworkplumbingwg.io"]
)
def test_unknown_name_is_a_note(name: str) -> None:
    (match,) = matches_of(RULE, claim("", class_name=name))
    assert match.level == "note"
    assert match.fix is None


def test_invalid_name_is_an_error() -> None:
    assert levels_and_messages(RULE, claim("", class_name="GPU_class")) == [
        ("error", '"GPU_class" is not a valid class name: the API server rejects it')
    ]


def test_resource_of_a_device_plugin_is_no_class() -> None:
    assert levels_and_messages(RULE, claim("", class_name="nvidia.com/gpu")) == [
        (
            "error",
            "nvidia.com/gpu is the name of a device plugin's resource: the class of the DRA driver is gpu.nvidia.com",
        )
    ]
    assert [finding.code for finding in check(bundle(claim("", class_name="nvidia.com/gpu")))] == ["V306"]


def test_different_size_is_no_typo() -> None:
    device_class = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: slice-7g.80gb}\nspec: {}\n"
    (match,) = matches_of(RULE, claim("", class_name="slice-1g.10gb") + device_class)
    assert match.fix is None
