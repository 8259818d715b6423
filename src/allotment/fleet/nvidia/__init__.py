"""Devices as the NVIDIA driver (``gpu.nvidia.com``) publishes them."""

from allotment.fleet.nvidia._old import counter_sets, devices_of, semver
from allotment.fleet.nvidia.gpu import DRIVER, Fabric, Gpu, gpu_uuid, gpus_of

__all__ = ["DRIVER", "Fabric", "Gpu", "counter_sets", "devices_of", "gpu_uuid", "gpus_of", "semver"]
