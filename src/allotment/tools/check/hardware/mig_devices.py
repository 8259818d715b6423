"""MIG in the given cluster: whether it has MIG devices, or whole GPUs with the memory of a profile."""

from __future__ import annotations

from typing import Final

from allotment.model.quantity import Quantity
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.hardware.sample_devices import cluster_samples

DRIVER: Final = "gpu.nvidia.com"


def lacks_mig_devices(bundle: Bundle) -> bool:
    """Whether the given cluster has NVIDIA GPUs, and none of them has MIG devices."""
    samples = bundle.cached(cluster_samples).get(DRIVER, ())
    return bool(samples) and not any(sample.partition for sample in samples)


def whole_gpu_with(bundle: Bundle, memory: str) -> bool:
    """Whether a whole GPU of the given cluster has at least this memory; any has, if it is empty."""
    least = Quantity.parse(memory or "0")
    samples = bundle.cached(cluster_samples).get(DRIVER, ())
    amounts = (sample.memory() for sample in samples if sample.string_attribute("type") == "gpu")
    return any(amount is not None and amount >= least for amount in amounts)
