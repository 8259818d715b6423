"""The example drivers of Kubernetes' own demonstrations: GPUs, network cards and processors that are made up.

They are for trying manifests and for reading: everything a driver can publish is here, and nothing is behind it.
"""

from __future__ import annotations

from allotment.drivers.example.cpus import ExampleCpus
from allotment.drivers.example.gpus import ExampleGpus
from allotment.drivers.example.nics import ExampleNics

__all__ = ["ExampleCpus", "ExampleGpus", "ExampleNics"]
