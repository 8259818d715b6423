"""The drivers of Kubernetes' example devices: simulated GPUs, network cards and processors.

They are for trying manifests and for reading: they publish everything that a driver can, without hardware.
"""

from __future__ import annotations

from allotment.drivers.example.cpus import ExampleCpus
from allotment.drivers.example.gpus import ExampleGpus
from allotment.drivers.example.nics import ExampleNics

__all__ = ["ExampleCpus", "ExampleGpus", "ExampleNics"]
