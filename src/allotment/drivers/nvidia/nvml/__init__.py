"""NVIDIA's management library through ``nvidia-ml-py``: GPUs, MIG, critical events.

Everything here blocks, some calls for seconds, and must be called in one thread. No other package imports ``pynvml``.
"""

from allotment.drivers.nvidia.nvml.events import EventWatcher
from allotment.drivers.nvidia.nvml.facts import facts_of, uuid_of
from allotment.drivers.nvidia.nvml.library import Handle, Library, NvmlUnavailable
from allotment.drivers.nvidia.nvml.mig import create_mig_device, destroy_mig_device, disable_mig, mig_devices

__all__ = [
    "EventWatcher",
    "Handle",
    "Library",
    "NvmlUnavailable",
    "create_mig_device",
    "destroy_mig_device",
    "disable_mig",
    "facts_of",
    "mig_devices",
    "uuid_of",
]
