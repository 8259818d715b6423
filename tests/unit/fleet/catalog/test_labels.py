"""Node labels of cloud providers that follow from the instance type."""

from __future__ import annotations

import pytest

from allotment.fleet.catalog import catalog, template_of
from allotment.fleet.gpu_product_labels import products_of_cloud
from tests.unit.fleet.catalog.conftest import Type

KARPENTER = "karpenter.k8s.aws/instance-"
GKE = "cloud.google.com/gke-accelerator"


def test_karpenter_labels_contain_size_and_gpus_of_aws_types(sold: Type) -> None:
    labels = template_of(sold("aws/g6.12xlarge"), "", "n").node.metadata.labels
    assert {key.removeprefix(KARPENTER): value for key, value in labels.items() if key.startswith(KARPENTER)} == {
        "category": "g", "cpu": "48", "family": "g6", "generation": "6", "gpu-count": "4",
        "gpu-manufacturer": "nvidia", "gpu-memory": "22888", "gpu-name": "l4", "memory": "196608", "size": "12xlarge",
    }  # fmt: skip
    labels = template_of(sold("aws/m6i.xlarge"), "", "n").node.metadata.labels
    assert not [key for key in labels if "gpu" in key]
    assert labels[f"{KARPENTER}family"] == "m6i"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a2-highgpu-1g", "nvidia-tesla-a100"), ("a2-ultragpu-1g", "nvidia-a100-80gb"), ("g2-standard-8", "nvidia-l4"),
        ("a3-highgpu-8g", "nvidia-h100-80gb"), ("a3-megagpu-8g", "nvidia-h100-mega-80gb"),
        ("n1-standard-8+1xT4", "nvidia-tesla-t4"),
    ],
)  # fmt: skip
def test_gke_product_names(sold: Type, name: str, value: str) -> None:
    assert template_of(sold(f"gcp/{name}"), "", "n").node.metadata.labels[GKE] == value


def test_gpu_names_of_clouds_map_to_products() -> None:
    for instance in catalog():
        labels = template_of(instance, "", "n").node.metadata.labels
        for key in (GKE, f"{KARPENTER}gpu-name"):
            if key in labels:
                assert instance.accelerator is not None
                assert instance.accelerator.product in products_of_cloud(labels[key])


def test_labels_are_valid() -> None:
    for instance in catalog():
        for key, value in template_of(instance, "", "n").node.metadata.labels.items():
            assert 0 < len(value) <= 63, (instance.key, key)
            assert value[0].isalnum(), (instance.key, key)
            assert value[-1].isalnum(), (instance.key, key)
            assert not set(value) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."), value


def test_unknown_memory_has_no_label(sold: Type) -> None:
    labels = template_of(sold("lambda/gpu_1x_a6000"), "", "n").node.metadata.labels
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-RTX-A6000"
    assert "nvidia.com/gpu.memory" not in labels
