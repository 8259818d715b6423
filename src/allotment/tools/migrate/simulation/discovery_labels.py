"""The node labels that vendors' feature discovery and cloud providers set for a machine's GPUs.

The labels of NVIDIA's feature discovery and AMD's node labeller include settings of the device plugin: how GPUs are
partitioned and how many pods share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from allotment.fleet import Accelerator
from allotment.fleet.gpu_product_labels import labels_of_gpus, marketed_mib, product_label, products_of_cloud
from allotment.tools.migrate.plugin_config import REPLICAS_LABELS, STRATEGY_LABELS
from allotment.tools.migrate.plugin_requests import Term

_GPU: Final = "nvidia.com/gpu."
_AKS: Final = ("kubernetes.azure.com/accelerator", "accelerator", "karpenter.k8s.aws/instance-gpu-manufacturer")
_COUNTS: Final = (
    "cloud.google.com/gke-accelerator-count",
    "karpenter.k8s.aws/instance-gpu-count",
    "gpu.nvidia.com/count",
)
_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"


def nvidia_labels(model: Accelerator, gpus: int) -> dict[str, str]:
    """The labels of a node with whole GPUs that are not shared."""
    versions = zip(("major", "minor", "rev"), model.driver_version.split("."), strict=False)
    runtime = zip(("major", "minor"), model.cuda_driver_version.split("."), strict=False)
    return {
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/pci-0302_10de.present": "true",
        **labels_of_gpus(model, gpus),
        **{f"nvidia.com/cuda.driver.{part}": str(int(number)) for part, number in versions},
        **{f"nvidia.com/cuda.runtime.{part}": number for part, number in runtime},
        f"{_GPU}mode": "compute",
        f"{_GPU}replicas": "1",
        f"{_GPU}sharing-strategy": "none",
        "nvidia.com/mig.capable": "true" if model.mig else "false",
        "nvidia.com/mps.capable": "false",
    }


def shared(labels: Mapping[str, str], strategy: str, replicas: int, *, renamed: bool) -> dict[str, str]:
    """The labels if pods share GPUs. ``renamed``: the shared resource has a separate name instead of a label suffix."""
    suffix = "" if renamed else "-SHARED"
    return {
        **labels,
        f"{_GPU}product": labels[f"{_GPU}product"] + suffix,
        f"{_GPU}replicas": str(replicas),
        f"{_GPU}sharing-strategy": strategy,
        "nvidia.com/mps.capable": "true" if strategy == "mps" else "false",
    }


def mixed(labels: Mapping[str, str], model: Accelerator, pieces: Mapping[str, int]) -> dict[str, str]:
    """The labels if GPUs are partitioned and every profile has its own resource (MIG strategy ``mixed``)."""
    memory = {profile.name: profile.memory_mib for profile in model.mig.profiles} if model.mig else {}
    found = {**labels, "nvidia.com/mig.strategy": "mixed", **_config(pieces)}
    for profile, count in pieces.items():
        name = f"nvidia.com/mig-{profile.replace('+', '.')}"
        found[f"{name}.count"] = str(count)
        found[f"{name}.memory"] = str(memory[profile])
        found[f"{name}.product"] = f"{product_label(model.product)}-MIG-{profile.replace('+', '.')}"
        found[f"{name}.replicas"] = "1"
        found[f"{name}.sharing-strategy"] = "none"
    return found


def single(labels: Mapping[str, str], model: Accelerator, profile: str, count: int) -> dict[str, str]:
    """The labels if all partitions have one profile and the resource name of GPUs (MIG strategy ``single``)."""
    memory = next((p.memory_mib for p in model.mig.profiles if p.name == profile), 0) if model.mig else 0
    return {
        **labels,
        "nvidia.com/mig.strategy": "single",
        **_config({profile: count}),
        f"{_GPU}product": f"{product_label(model.product)}-MIG-{profile.replace('+', '.')}",
        f"{_GPU}count": str(count),
        f"{_GPU}memory": str(memory),
    }


def _config(pieces: Mapping[str, int]) -> dict[str, str]:
    """The labels that configure MIG manager."""
    only = next(iter(pieces)) if len(pieces) == 1 else ""
    config = f"all-{only.replace('+', '.')}" if only else "custom"
    return {"nvidia.com/mig.config": config, "nvidia.com/mig.config.state": "success"}


def amd_labels(model: Accelerator, gpus: int, partition: str) -> dict[str, str]:
    """The labels of a node with AMD GPUs; ``partition``: their mode (``spx_nps1``), or empty."""
    own = labels_of_gpus(model, gpus)
    more = {"amd.com/gpu.cu-count": str(model.compute_units), "amd.com/gpu.simd-count": str(model.simd_units)}
    found = {"feature.node.kubernetes.io/amd-gpu": "true", **own, **more}
    found |= {f"beta.{key}": value for key, value in (own | more).items()}
    return found | ({"amd.com/compute-memory-partition": partition} if partition else {})


# --- clouds ----------------------------------------------------------------------------------------------------------


def cloud_labels(terms: Iterable[Term], model: Accelerator, gpus: int) -> dict[str, str]:
    """The labels that a cloud provider would set for this hardware, of those that workloads require.

    A fleet has no cloud provider, so a label is set only if a workload requires it with a value for this hardware.
    """
    found: dict[str, str] = {}
    for term in terms:
        if term.key in found:
            continue
        if term.key in _COUNTS:
            found[term.key] = str(gpus)
        elif term.key == "karpenter.k8s.aws/instance-gpu-memory":
            found[term.key] = str(marketed_mib(model))
        elif term.key == "gpu.nvidia.com/vram":
            found[term.key] = str(marketed_mib(model) // 1024)
        elif term.key in _AKS and model.vendor in term.values:
            found[term.key] = model.vendor
        else:
            matching_value = next((value for value in term.values if model.product in products_of_cloud(value)), None)
            if matching_value is not None:
                found[term.key] = matching_value
    return found


def cloud_sharing(terms: Iterable[Term], replicas: int) -> dict[str, str]:
    """GKE's labels of nodes with shared GPUs, of those that workloads require.

    The strategy label has the required value, because GKE has its own names for strategies.
    """
    found: dict[str, str] = {}
    for term in terms:
        if term.key in REPLICAS_LABELS[1:]:
            found[term.key] = str(replicas)
        elif term.key in STRATEGY_LABELS[1:] and len(term.values) == 1:
            found[term.key] = term.values[0]
    return found


def cloud_partition(terms: Iterable[Term], profile: str) -> dict[str, str]:
    """GKE's label of nodes with partitioned GPUs, if a workload requires it."""
    return {_PARTITION: profile} if any(term.key == _PARTITION for term in terms) else {}
