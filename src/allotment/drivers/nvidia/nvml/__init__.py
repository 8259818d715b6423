"""NVIDIA's management library through ``nvidia-ml-py``: what GPUs there are, MIG, critical events.

Everything here blocks, some calls for seconds, and belongs into one thread. Nothing else imports ``pynvml``.
"""

from allotment.drivers.nvidia.nvml.events import EventWatcher
from allotment.drivers.nvidia.nvml.facts import facts_of, uuid_of
from allotment.drivers.nvidia.nvml.library import Handle, Library, NvmlUnavailable
from allotment.drivers.nvidia.nvml.mig import create_mig_device, destroy_mig_device, disable_mig, mig_devices

__all__ = ["Handle", "Library", "Unavailable", "Watch", "create", "destroy", "devices", "facts_of", "leave", "uuid_of"]
