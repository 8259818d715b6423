"""Which GPU model a label's value means: feature discovery writes dashes for blanks, and every cloud has its own names.

The driver publishes ``NVIDIA A100-SXM4-40GB``; the label is ``NVIDIA-A100-SXM4-40GB``, so a dash may have been either.
For models that are known the published name is looked up.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from allotment.fleet import Accelerator, accelerators

#: Characters that feature discovery leaves out of a label's value.
_LEFT_OUT: Final = re.compile(r"[^A-Za-z0-9\-_. ]")
#: What feature discovery adds to the product of GPUs that are cut or shared.
_ADDED: Final = re.compile(r"(-MIG-.+)?(-SHARED)?$")

# fmt: off
#: Names that clouds give to models, in small letters with dashes -> ids of our profiles, or names as published.
_CLOUDS: Final[dict[str, tuple[str, ...]]] = {
    # GKE: cloud.google.com/gke-accelerator. EKS with the cluster autoscaler uses some of the same.
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
    # Karpenter: karpenter.k8s.aws/instance-gpu-name. An a100 is of a p4d or of a p4de.
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
    # CoreWeave: gpu.nvidia.com/class, gpu.nvidia.com/model.
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

#: GFD's nvidia.com/gpu.family -> attribute architecture.
ARCHITECTURES: Final = {
    "kepler": "Kepler", "maxwell": "Maxwell", "pascal": "Pascal", "volta": "Volta", "turing": "Turing",
    "ampere": "Ampere", "ada-lovelace": "Ada Lovelace", "hopper": "Hopper", "blackwell": "Blackwell",
}
# fmt: on


def product_label(product: str) -> str:
    """The value of ``nvidia.com/gpu.product`` for a product as published.

    >>> product_label("NVIDIA H100 80GB HBM3")
    'NVIDIA-H100-80GB-HBM3'
    """
    return "-".join(_LEFT_OUT.sub("", product).split())


def product_of_label(value: str) -> tuple[str, bool]:
    """The product that a value of ``nvidia.com/gpu.product`` means, and whether that is certain.

    What is not known keeps the label's dashes, and it is not certain.

    >>> product_of_label("Tesla-T4-SHARED"), product_of_label("NVIDIA-L40")
    (('Tesla T4', True), ('NVIDIA-L40', False))
    """
    bare = _ADDED.sub("", value, count=1)
    known = _by_label().get(bare)
    return (known, True) if known is not None else (bare, False)


def products_of_cloud(value: str) -> tuple[str, ...]:
    """The products that a cloud's name for a GPU means; empty for a name that is not known.

    >>> products_of_cloud("nvidia-tesla-t4"), products_of_cloud("A100_NVLINK_80GB")
    (('Tesla T4',), ('NVIDIA A100-SXM4-80GB',))
    """
    known = accelerators()
    names = _CLOUDS.get(value.lower().replace("_", "-"), ())
    return tuple(known[name].product if name in known else name for name in names)


def marketed_mib(model: Accelerator) -> int:
    """The memory that a model is sold with, in MiB; more than its driver counts."""
    found = re.search(r"-([0-9]+)gb", model.id)
    return int(found[1]) * 1024 if found else model.memory_mib


def known_models(vendor: str) -> tuple[Accelerator, ...]:
    """The models of a vendor that are known, least memory first."""
    found = (model for model in accelerators().values() if model.vendor == vendor)
    return tuple(sorted(found, key=lambda model: (model.memory_mib, model.id)))


@cache
def _by_label() -> dict[str, str]:
    return {product_label(model.product): model.product for model in known_models("nvidia")}
