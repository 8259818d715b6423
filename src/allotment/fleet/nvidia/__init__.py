"""Devices as the NVIDIA drivers publish them (``gpu.nvidia.com`` and ``compute-domain.nvidia.com``)."""

from allotment.fleet.nvidia.attributes import semver
from allotment.fleet.nvidia.compute_domain import COMPUTE_DOMAIN_DRIVER, domain_devices
from allotment.fleet.nvidia.gpu import DRIVER, Fabric, Gpu, gpu_uuid, gpus_of
from allotment.fleet.nvidia.gpu_devices import name_of
from allotment.fleet.nvidia.mig_devices import ExistingMigDevice, piece_name
from allotment.fleet.nvidia.published_devices import FixedMigDevice, Offering, fixed_mig_devices, offering, offering_of

__all__ = [
    "COMPUTE_DOMAIN_DRIVER",
    "DRIVER",
    "ExistingMigDevice",
    "Fabric",
    "Gpu",
    "FixedMigDevice",
    "Offering",
    "domain_devices",
    "gpu_uuid",
    "gpus_of",
    "fixed_mig_devices",
    "name_of",
    "offering",
    "offering_of",
    "piece_name",
    "semver",
]
