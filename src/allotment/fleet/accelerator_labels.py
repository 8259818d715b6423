"""Labels with which feature discovery, operators and clouds mark nodes with accelerators, by vendor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

#: Keys, or ``key=prefix of the value``.
LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "NVIDIA": (
        "nvidia.com/gpu.present=true",
        "feature.node.kubernetes.io/pci-10de.present=true",
        "feature.node.kubernetes.io/pci-0300_10de.present=true",
        "feature.node.kubernetes.io/pci-0302_10de.present=true",
        "cloud.google.com/gke-accelerator=nvidia-",
        "k8s.amazonaws.com/accelerator=nvidia-",
        "karpenter.k8s.aws/instance-gpu-manufacturer=nvidia",
        "kubernetes.azure.com/accelerator=nvidia",
    ),
    "AMD": (
        "feature.node.kubernetes.io/amd-gpu=true",
        "feature.node.kubernetes.io/pci-1002.present=true",
        "feature.node.kubernetes.io/pci-0300_1002.present=true",
        "feature.node.kubernetes.io/pci-0380_1002.present=true",
        "feature.node.kubernetes.io/pci-1200_1002.present=true",
    ),
    "Intel": ("intel.feature.node.kubernetes.io/gpu=true",),
}


def accelerator_label(labels: Mapping[str, str], vendors: Iterable[str] = LABELS) -> str:
    """The label that marks a node with accelerators of one of the vendors, as ``key=value``; empty if there is none.

    >>> accelerator_label({"disk": "ssd", "cloud.google.com/gke-accelerator": "nvidia-l4"})
    'cloud.google.com/gke-accelerator=nvidia-l4'
    >>> accelerator_label({"cloud.google.com/gke-accelerator": "nvidia-l4"}, ["AMD"])
    ''
    """
    for label in (label for vendor in vendors for label in LABELS[vendor]):
        key, _, prefix = label.partition("=")
        value = labels.get(key)
        if value is not None and value.startswith(prefix):
            return f"{key}={value}"
    return ""
