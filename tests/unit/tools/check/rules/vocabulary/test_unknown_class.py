"""Classes that nobody makes, and those that were meant."""

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
    ("name", "meant"),
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
def test_class_suggestions(name: str, meant: str) -> None:
    assert levels_and_messages(RULE, claim("", class_name=name)) == [
        ("warning", f'class "{name}" is not in the files, and no known driver installs it')
    ]
    assert fixed_document(RULE, claim("", class_name=name))["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": meant
    }


def test_model_in_the_name_becomes_a_selector() -> None:
    request = fixed_document(RULE, claim("", class_name="nvidia-h100"))["spec"]["devices"]["requests"][0]["exactly"]
    assert request == {
        "deviceClassName": "gpu.nvidia.com",
        "selectors": [{"cel": {"expression": f'{NVIDIA}.productName.contains("H100")'}}],
    }
    # L40S has L4 in its name.
    request = fixed_document(RULE, claim("true", class_name="nvidia-l4"))["spec"]["devices"]["requests"][0]["exactly"]
    assert [one["cel"]["expression"] for one in request["selectors"]] == [
        "true",
        f'{NVIDIA}.productName == "NVIDIA L4"',
    ]


def test_driver_from_selectors() -> None:
    text = claim(f'{NVIDIA}.productName == "NVIDIA L4"', class_name="high-memory-gpu")
    assert (
        fixed_document(RULE, text)["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    )


def test_meaningless_name_has_no_suggestion() -> None:
    (found,) = matches_of(RULE, claim("", class_name="fast"))
    assert found.fix is None


def test_classes_of_files_and_charts_are_known() -> None:
    assert levels_and_messages(RULE, claim("", class_name="high-memory") + OWN) == []
    assert fixed_document(RULE, claim("", class_name="high-memry") + OWN)["spec"]["devices"]["requests"][0][
        "exactly"
    ] == {"deviceClassName": "high-memory"}
    assert levels_and_messages(RULE, claim("", class_name="mig.nvidia.com")) == []


def test_class_missing_in_the_cluster_is_an_error() -> None:
    assert levels_and_messages(RULE, claim("", class_name="nvidia-gpu"), fleet="8xh100") == [
        ("error", 'class "nvidia-gpu" does not exist in the cluster: pods that ask for it stay pending')
    ]
    assert levels_and_messages(RULE, claim("", class_name="gpu.nvidia.com"), fleet="8xh100") == []
    (found,) = matches_of(RULE, claim("", class_name="gpu.amd.com"), fleet="8xh100")
    assert (found.level, found.fix) == ("error", None)
    assert "chart of gpu.amd.com" in found.help


def test_snapshot_without_classes_is_inconclusive() -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n"
    assert levels_and_messages(RULE, claim("", class_name="gpu.nvidia.com"), cluster=node) == []


def test_removed_class() -> None:
    (found,) = matches_of(RULE, claim("", class_name="imex.nvidia.com"))
    assert found.message == 'class "imex.nvidia.com" is no more: compute-domain.nvidia.com installs none since 25.3'
    # Claims of its successor are written by the controller of ComputeDomains.
    assert found.fix is None
    assert "compute-domain-default-channel.nvidia.com" in found.help


def test_implicit_extended_resource() -> None:
    (found,) = matches_of(RULE, POD)
    assert found.at_key
    resources = fixed_document(RULE, POD)["spec"]["containers"][0]["resources"]
    name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
    assert resources == {"limits": {name: 1}, "requests": {name: 1}}


@pytest.mark.parametrize(
    "name", ["npu.rebellions.ai", "dra.net", "npu.example.com", "example", "sriovnetwork.k8snetworkplumbingwg.io"]
)
def test_unknown_name_is_a_note(name: str) -> None:
    (found,) = matches_of(RULE, claim("", class_name=name))
    assert found.level == "note"
    assert found.fix is None


def test_invalid_name_is_an_error() -> None:
    assert levels_and_messages(RULE, claim("", class_name="nvidia.com/gpu")) == [
        ("error", '"nvidia.com/gpu" cannot be the name of a class, and the API server refuses it')
    ]
    assert [one.code for one in check(bundle(claim("", class_name="nvidia.com/gpu")))] == ["V306"]


def test_different_size_is_no_typo() -> None:
    made = "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: slice-7g.80gb}\nspec: {}\n"
    (found,) = matches_of(RULE, claim("", class_name="slice-1g.10gb") + made)
    assert found.fix is None
