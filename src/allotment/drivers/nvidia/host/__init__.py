"""The hardware of a real host: NVML for the GPUs, the driver's tools and the kernel's files for the rest."""

from allotment.drivers.nvidia.host.hardware import HostHardware
from allotment.drivers.nvidia.host.roots import Roots

__all__ = ["HostHardware", "Roots"]
