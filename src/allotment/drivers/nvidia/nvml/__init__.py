"""NVIDIA's management library through ``nvidia-ml-py``: what GPUs there are, MIG, critical events.

Everything here blocks, some calls for seconds, and belongs into one thread. Nothing else imports ``pynvml``.
"""

from allotment.drivers.nvidia.nvml.events import Watch
from allotment.drivers.nvidia.nvml.facts import facts_of, uuid_of
from allotment.drivers.nvidia.nvml.library import Handle, Library, Unavailable
from allotment.drivers.nvidia.nvml.mig import create, destroy, devices, leave

__all__ = ["Handle", "Library", "Unavailable", "Watch", "create", "destroy", "devices", "facts_of", "leave", "uuid_of"]
