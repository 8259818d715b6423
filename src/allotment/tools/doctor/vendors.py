"""Detection of accelerators on nodes by labels and device plugins, and of driver pods."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.model.core import Node
from allotment.tools.doctor.objects import Pod
from allotment.vocabulary.driver_detection import is_named_as_driver
from allotment.vocabulary.driver_host_paths import belong_to_driver


class Vendor(NamedTuple):
    """A vendor of accelerators.

    ``labels`` are set by node-feature-discovery, operators and clouds: a key, or ``key=prefix of the value``.
    ``resources`` are prefixes of the resources of its device plugin. ``driver`` is the name of its DRA driver,
    ``install`` the URL of the driver.
    """

    name: str
    driver: str
    labels: tuple[str, ...]
    resources: tuple[str, ...]
    install: str


VENDORS: Final = (
    Vendor(
        "NVIDIA",
        "gpu.nvidia.com",
        (
            "nvidia.com/gpu.present=true",
            "feature.node.kubernetes.io/pci-10de.present=true",
            "feature.node.kubernetes.io/pci-0300_10de.present=true",
            "feature.node.kubernetes.io/pci-0302_10de.present=true",
            "cloud.google.com/gke-accelerator=nvidia-",
            "k8s.amazonaws.com/accelerator=nvidia-",
            "karpenter.k8s.aws/instance-gpu-manufacturer=nvidia",
            "kubernetes.azure.com/accelerator=nvidia",
        ),
        ("nvidia.com/gpu", "nvidia.com/mig-"),
        "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu",
    ),
    Vendor(
        "AMD",
        "gpu.amd.com",
        (
            "feature.node.kubernetes.io/amd-gpu=true",
            "feature.node.kubernetes.io/pci-1002.present=true",
            "feature.node.kubernetes.io/pci-0300_1002.present=true",
            "feature.node.kubernetes.io/pci-0380_1002.present=true",
            "feature.node.kubernetes.io/pci-1200_1002.present=true",
        ),
        ("amd.com/gpu",),
        "https://github.com/ROCm/k8s-gpu-dra-driver",
    ),
    Vendor(
        "Intel",
        "gpu.intel.com",
        ("intel.feature.node.kubernetes.io/gpu=true",),
        ("gpu.intel.com/i915", "gpu.intel.com/xe"),
        "https://github.com/intel/intel-resource-drivers-for-kubernetes",
    ),
)


def accelerator_evidence(node: Node, vendor: Vendor) -> str:
    """The label or resource that shows that a node has a vendor's accelerators; empty if there is none."""
    for label in vendor.labels:
        key, _, prefix = label.partition("=")
        value = node.metadata.labels.get(key)
        if value is not None and value.startswith(prefix):
            return f"label {key}={value}"
    offered = plugin_resources(node, vendor)
    return f"allocatable {offered[0]}" if offered else ""


def plugin_resources(node: Node, vendor: Vendor) -> tuple[str, ...]:
    """Resources of the vendor that a device plugin provides on the node, as ``nvidia.com/gpu: 8``."""
    return tuple(
        f"{name}: {amount}"
        for name, amount in node.status.allocatable.items()
        if name.startswith(vendor.resources) and amount.sign() > 0
    )


def is_driver(pod: Pod, owner: str) -> bool:
    """Whether a pod of the DaemonSet ``owner`` is a DRA driver."""
    if allotment_driver(pod) or any(map(is_named_as_driver, (owner, *(c.image for c in pod.spec.containers)))):
        return True
    return belong_to_driver(volume.host_path.path for volume in pod.spec.volumes if volume.host_path is not None)


#: Drivers of Allotment by the component label of chart and kustomize.
_ALLOTMENT_DRIVERS: Final = {"driver-nvidia": "gpu.nvidia.com", "driver-amd": "gpu.amd.com"}


def allotment_driver(pod: Pod) -> str:
    """The name of the driver if the pod is one of Allotment's drivers, by its labels; otherwise empty."""
    labels = pod.metadata.labels
    is_allotment = labels.get("app.kubernetes.io/name") == "allotment"
    return _ALLOTMENT_DRIVERS.get(labels.get("app.kubernetes.io/component", ""), "") if is_allotment else ""
