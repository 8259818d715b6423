"""Detection of accelerators on nodes by labels and device plugins, and of driver pods."""

from __future__ import annotations

from typing import Final, NamedTuple

from allotment.fleet.accelerator_labels import accelerator_label
from allotment.model.core import Node
from allotment.tools.doctor.objects import Pod
from allotment.vocabulary.driver_detection import is_named_as_driver
from allotment.vocabulary.driver_host_paths import belong_to_driver


class Vendor(NamedTuple):
    """A vendor of accelerators.

    ``resources`` are prefixes of the resources of its device plugin. ``driver`` is the name of its DRA driver,
    ``install`` the URL of the driver.
    """

    name: str
    driver: str
    resources: tuple[str, ...]
    install: str


VENDORS: Final = (
    Vendor(
        "NVIDIA",
        "gpu.nvidia.com",
        ("nvidia.com/gpu", "nvidia.com/mig-"),
        "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu",
    ),
    Vendor("AMD", "gpu.amd.com", ("amd.com/gpu",), "https://github.com/ROCm/k8s-gpu-dra-driver"),
    Vendor(
        "Intel",
        "gpu.intel.com",
        ("gpu.intel.com/i915", "gpu.intel.com/xe"),
        "https://github.com/intel/intel-resource-drivers-for-kubernetes",
    ),
)


def accelerator_evidence(node: Node, vendor: Vendor) -> str:
    """The label or resource that shows that a node has a vendor's accelerators; empty if there is none."""
    if label := accelerator_label(node.metadata.labels, [vendor.name]):
        return f"label {label}"
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
