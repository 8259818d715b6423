"""Node labels that name GPU models: feature discovery replaces blanks by dashes, and every cloud has its own names.

The driver publishes ``NVIDIA A100-SXM4-40GB``; the label is ``NVIDIA-A100-SXM4-40GB``, so a dash is
ambiguous. For known models the published name is looked up.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from allotment.fleet.advertised_memory import accelerator_gb
from allotment.fleet.profiles import Accelerator, accelerators

#: Characters that feature discovery drops from a label's value.
_DROPPED_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9\-_. ]")
#: Suffix that feature discovery appends to the product of partitioned or shared GPUs.
_SHARING_SUFFIX: Final = re.compile(r"(-MIG-.+)?(-SHARED)?$")

# fmt: off
# Cloud names of models, in lower case with dashes -> ids of profiles, or product names as published.

#: cloud.google.com/gke-accelerator. EKS with the cluster autoscaler uses some of the same.
_GKE: Final[dict[str, tuple[str, ...]]] = {
    "nvidia-tesla-k80": ("Tesla K80",),
    "nvidia-tesla-p4": ("Tesla P4",),
    "nvidia-tesla-p100": ("Tesla P100-PCIE-16GB",),
    "nvidia-tesla-v100": ("nvidia-v100-sxm2-16gb",),
    "nvidia-tesla-t4": ("nvidia-t4-16gb",),
    "nvidia-tesla-a100": ("nvidia-a100-sxm4-40gb",),
    "nvidia-a100-80gb": ("nvidia-a100-sxm4-80gb",),
    "nvidia-l4": ("nvidia-l4-24gb",),
    "nvidia-h100-80gb": ("nvidia-h100-80gb-hbm3",),
    "nvidia-h100-mega-80gb": ("nvidia-h100-80gb-hbm3",),
    "nvidia-h200-141gb": ("nvidia-h200-141gb",),
    "nvidia-b200": ("nvidia-b200-180gb",),
    "nvidia-rtx-pro-6000": ("nvidia-rtx-pro-6000-blackwell-server",),
}
#: karpenter.k8s.aws/instance-gpu-name. An a100 can be that of a p4d or of a p4de.
_KARPENTER: Final[dict[str, tuple[str, ...]]] = {
    "k80": ("Tesla K80",),
    "m60": ("Tesla M60",),
    "v100": ("nvidia-v100-sxm2-16gb", "Tesla V100-SXM2-32GB"),
    "t4": ("nvidia-t4-16gb",),
    "t4g": ("NVIDIA T4G",),
    "a10g": ("nvidia-a10g-24gb",),
    "a100": ("nvidia-a100-sxm4-40gb", "nvidia-a100-sxm4-80gb"),
    "l4": ("nvidia-l4-24gb",),
    "l40s": ("nvidia-l40s-48gb",),
    "h100": ("nvidia-h100-80gb-hbm3",),
    "h200": ("nvidia-h200-141gb",),
    "b200": ("nvidia-b200-180gb",),
}
#: gpu.nvidia.com/class and gpu.nvidia.com/model.
_COREWEAVE: Final[dict[str, tuple[str, ...]]] = {
    "a100-nvlink": ("nvidia-a100-sxm4-40gb",),
    "a100-nvlink-40gb": ("nvidia-a100-sxm4-40gb",),
    "a100-nvlink-80gb": ("nvidia-a100-sxm4-80gb",),
    "a100-pcie-40gb": ("NVIDIA A100-PCIE-40GB",),
    "a100-pcie-80gb": ("NVIDIA A100 80GB PCIe",),
    "h100-nvlink-80gb": ("nvidia-h100-80gb-hbm3",),
    "h100-pcie": ("NVIDIA H100 PCIe",),
    "a40": ("NVIDIA A40",),
    "l40": ("NVIDIA L40",),
}
_CLOUDS: Final = _GKE | _KARPENTER | _COREWEAVE

#: GFD's nvidia.com/gpu.family -> attribute architecture.
ARCHITECTURES: Final = {
    "kepler": "Kepler", "maxwell": "Maxwell", "pascal": "Pascal", "volta": "Volta", "turing": "Turing",
    "ampere": "Ampere", "ada-lovelace": "Ada Lovelace", "hopper": "Hopper", "blackwell": "Blackwell",
}
# fmt: on


def product_label(product: str) -> str:
    """Return the value of ``nvidia.com/gpu.product`` for a product as published.

    >>> product_label("NVIDIA H100 80GB HBM3")
    'NVIDIA-H100-80GB-HBM3'
    """
    return "-".join(_DROPPED_CHARACTERS.sub("", product).split())


def product_of_label(value: str) -> tuple[str, bool]:
    """Return the product of a value of ``nvidia.com/gpu.product``, and whether that is certain.

    An unknown product keeps the dashes of the label and is not certain.

    >>> product_of_label("Tesla-T4-SHARED"), product_of_label("NVIDIA-L2")
    (('Tesla T4', True), ('NVIDIA-L2', False))
    """
    bare = _SHARING_SUFFIX.sub("", value, count=1)
    known = _by_label().get(bare)
    return (known, True) if known is not None else (bare, False)


def products_of_cloud(value: str) -> tuple[str, ...]:
    """Return the products of a cloud's name for a GPU; empty for an unknown name.

    >>> products_of_cloud("nvidia-tesla-t4"), products_of_cloud("A100_NVLINK_80GB")
    (('Tesla T4',), ('NVIDIA A100-SXM4-80GB',))
    """
    known = accelerators()
    names = _CLOUDS.get(value.lower().replace("_", "-"), ())
    return tuple(known[name].product if name in known else name for name in names)


def gke_name(model: Accelerator) -> str:
    """Return the value of ``cloud.google.com/gke-accelerator`` for a model; empty if unknown."""
    return next((name for name, models in _GKE.items() if {model.id, model.product} & {*models}), "")


def karpenter_name(model: Accelerator) -> str:
    """Return the value of ``karpenter.k8s.aws/instance-gpu-name`` for a model; empty if unknown."""
    return next((name for name, products in _KARPENTER.items() if {model.id, model.product} & {*products}), "")


def labels_of_gpus(known: Accelerator, gpus: int) -> dict[str, str]:
    """Return the labels that feature discovery sets on a node with ``gpus`` GPUs of a model.

    >>> labels_of_gpus(accelerators()["nvidia-t4-16gb"], 4)["nvidia.com/gpu.product"]
    'Tesla-T4'
    """
    if known.vendor == "amd":
        return {
            "amd.com/gpu.device-id": known.pci_device.removeprefix("0x"),
            "amd.com/gpu.product-name": known.product,
            "amd.com/gpu.vram": f"{round(known.memory_mib / 1024)}G",
        }
    if known.vendor != "nvidia":
        return {}
    major, _, minor = known.compute_capability.partition(".")
    family = next((name for name, value in ARCHITECTURES.items() if value == known.architecture), "undefined")
    return {
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.family": family,
        "nvidia.com/gpu.memory": str(known.memory_mib),
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": product_label(known.product),
    }


def marketed_mib(model: Accelerator) -> int:
    """Return the advertised memory of a model in MiB, which is more than its driver reports."""
    return accelerator_gb(model) * 1024


def known_models(vendor: str) -> tuple[Accelerator, ...]:
    """Return the known models of a vendor, by ascending memory."""
    found = (model for model in accelerators().values() if model.vendor == vendor)
    return tuple(sorted(found, key=lambda model: (model.memory_mib, model.id)))


@cache
def _by_label() -> dict[str, str]:
    return {product_label(model.product): model.product for model in known_models("nvidia")}
