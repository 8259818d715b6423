"""Predicted labels of the nodes of an instance type, for node selectors of pods.

Three components set them: the kubelet and cloud provider (always), the provisioner (Karpenter on AWS, GKE, AKS), and
NVIDIA's or AMD's feature discovery, if installed. Labels that follow from the type are predicted; labels that depend on
the image (driver versions), on GPU sharing (``-SHARED``) or on a node pool are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from allotment.fleet.catalog.instance_type import CapacityType, InstanceType
from allotment.fleet.cluster import node_of
from allotment.fleet.description import FleetMachine
from allotment.fleet.gpu_product_labels import gke_name, karpenter_name, labels_of_gpus
from allotment.fleet.hardware import Hardware
from allotment.fleet.modes import Full
from allotment.model.core import HOSTNAME_LABEL

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
ARCH: Final = "kubernetes.io/arch"

#: Zone labels of CSI drivers, by provider.
_OF_VOLUMES: Final[Mapping[str, str]] = {
    "aws": "topology.ebs.csi.aws.com/zone",
    "azure": "topology.disk.csi.azure.com/zone",
    "gcp": "topology.gke.io/zone",
}
#: All zone labels.
ZONES: Final = frozenset((ZONE, *_OF_VOLUMES.values()))

#: Label domains of optional components -> the component.
SETTERS: Final[Mapping[str, str]] = {
    "nvidia.com": "GPU feature discovery",
    "amd.com": "AMD's node labeller",
    "karpenter.k8s.aws": "Karpenter",
    "cloud.google.com": "GKE",
    "kubernetes.azure.com": "AKS",
    "topology.ebs.csi.aws.com": "the EBS CSI driver",
    "topology.disk.csi.azure.com": "the Azure Disk CSI driver",
    "topology.gke.io": "the Persistent Disk CSI driver",
}

_KARPENTER: Final = "karpenter.k8s.aws/instance-"
_EC2: Final = re.compile(r"([a-z]+)(?:-[0-9]+tb)?([0-9]+)[^.]*")
#: EC2's GPU memory in MiB, by the same in GiB rounded to two digits.
_EC2_MIB: Final = {"22.35": 22888, "44.7": 45776, "179.06": 183359}


def labels_of(
    instance: InstanceType,
    machine: Hardware | None,
    node: str,
    zone: str = "",
    capacity_type: CapacityType = "on-demand",
) -> dict[str, str]:
    """Return the predicted labels. ``machine``: the hardware of whole GPUs; ``zone``: by default the first."""
    labels = {ARCH: instance.arch, HOSTNAME_LABEL: node, "kubernetes.io/os": "linux"}
    if machine is not None:
        labels = node_of(FleetMachine(node, machine, Full())).metadata.labels | labels
        labels |= labels_of_gpus(machine.accelerator, len(machine.slots))
        if machine.accelerator.memory_bound:  # the driver's figure is unknown
            del labels["nvidia.com/gpu.memory"]
    # The node of a composite type (a host with attached T4) has the host's labels.
    labels |= {INSTANCE_TYPE: instance.name.partition("+")[0], CAPACITY_TYPE: capacity_type}
    zone = zone or next(iter(instance.zones), "")
    where = {REGION: instance.region, ZONE: zone, _OF_VOLUMES.get(instance.provider, ZONE): zone}
    labels |= {label: value for label, value in where.items() if value}
    gpu_memory = _CLOUDS.get(instance.provider)
    return dict(sorted((labels | (gpu_memory(instance) if gpu_memory is not None else {})).items()))


def _aws(instance: InstanceType) -> dict[str, str]:
    """Return Karpenter's labels; https://karpenter.sh/docs/concepts/scheduling lists them."""
    family, _, size = instance.name.partition(".")
    found = {"family": family, "size": size}
    parts = _EC2.fullmatch(family)
    if parts is not None:
        found |= {"category": parts[1], "generation": parts[2]}
    if instance.vcpu is not None:
        found["cpu"] = f"{instance.vcpu:f}"
    if instance.memory_gib is not None:
        found["memory"] = str(int(instance.memory_gib * 1024))
    model = instance.accelerator
    if model is not None and instance.gpus:
        found |= {
            "gpu-count": str(instance.gpus),
            "gpu-manufacturer": model.vendor,
            "gpu-memory": _ec2_mib(instance.gpu_memory_gib),
            "gpu-name": karpenter_name(model),
        }
    return {f"{_KARPENTER}{name}": value for name, value in found.items() if value}


def _ec2_mib(gib: Decimal | None) -> str:
    if gib is None:
        return ""
    whole = gib * 1024
    return str(_EC2_MIB.get(f"{gib.normalize():f}", int(whole) if gib == gib.to_integral_value() else ""))


def _gcp(instance: InstanceType) -> dict[str, str]:
    model = instance.accelerator
    if model is None:
        return {}
    name = "nvidia-h100-mega-80gb" if instance.name.startswith("a3-mega") else gke_name(model)
    return {"cloud.google.com/gke-accelerator": name} if name else {}


def _azure(instance: InstanceType) -> dict[str, str]:
    model = instance.accelerator
    return {"kubernetes.azure.com/accelerator": "nvidia"} if model is not None and model.vendor == "nvidia" else {}


_CLOUDS: Final[Mapping[str, Callable[[InstanceType], dict[str, str]]]] = {"aws": _aws, "azure": _azure, "gcp": _gcp}
